"""Code shared by services and their clients: domain types, wire formats, RPC, configuration, the client."""

from importlib.metadata import version

__version__ = version("tlt-suite")
"""Stated in pyproject.toml only."""
