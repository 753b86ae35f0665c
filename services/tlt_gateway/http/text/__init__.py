"""Text to tokens, tokens to text, messages to text, text to tool calls. Others use `Language` and what it holds."""
