"""Bodies of HTTP calls. Every field is either honored or refused by name."""
