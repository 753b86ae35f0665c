"""The gateway measured against a bare gRPC server that sends the same messages."""
