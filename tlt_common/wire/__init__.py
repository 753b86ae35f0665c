"""
Boundary of protobuf: one module per service declares which dataclass each message stands for, and re-exports stub and
servicer base.

`convert` converts what is declared. Prompts and chunks of tokens, of which there are many, are converted by hand.
"""
