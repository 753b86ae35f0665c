"""gRPC servers and channels, set up once for all services."""
