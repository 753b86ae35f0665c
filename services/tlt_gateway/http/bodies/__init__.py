"""Bodies of HTTP calls: read, and every field honoured or refused by its name."""
