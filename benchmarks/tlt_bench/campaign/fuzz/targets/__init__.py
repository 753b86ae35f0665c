"""One module per reader of input."""
