"""The whole suite on one machine."""
