"""Boundary of protobuf: one module per service converts both ways and re-exports stub and servicer base."""
