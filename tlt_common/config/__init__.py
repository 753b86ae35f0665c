"""Configuration: one frozen model per service, parsed once, unknown keys refused."""
