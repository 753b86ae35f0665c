"""Text to tokens, tokens to text, messages to text, text to tool calls. Others use `TextCodec` and what it holds."""
