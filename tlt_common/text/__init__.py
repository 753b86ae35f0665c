"""What a model's tokenizer files say: special tokens, end tokens, and the text of tokens. Imports no tokenizer."""
