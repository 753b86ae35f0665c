"""Sampling, proposal and acceptance of tokens, and the hooks that install them in SGLang."""
