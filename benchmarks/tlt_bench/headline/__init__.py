"""TLT's benefit on a GPU: the text of a small model with the round costs of a large one."""
