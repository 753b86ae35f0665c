"""What TLT is worth on a GPU: the text of a small model in the rounds of a large one."""
