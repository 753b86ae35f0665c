"""Shared by services and their clients: domain types, wire formats, RPC, configuration, the client."""

__version__ = "0.1.0"
