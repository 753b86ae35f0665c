"""Tokenizer, detokenizer, chat template and tool-call parser. Other packages use `TextCodec` and its parts."""
