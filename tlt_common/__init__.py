"""What the services and their users share: domain types, wire formats, RPC, configuration, the client."""

__version__ = "0.1.0"
