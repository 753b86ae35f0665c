"""Properties of a model's tokenizer files: special tokens, end tokens, and texts of tokens. Imports no tokenizer."""
