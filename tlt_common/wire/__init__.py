"""Protobuf stops here: one module per service converts both ways and re-exports stub and servicer base."""
