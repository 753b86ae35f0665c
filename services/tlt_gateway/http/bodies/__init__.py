"""Bodies of HTTP calls. Every field is either honoured or refused by name."""
