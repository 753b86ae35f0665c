"""Drafts of a block drafter: its pass, and the context it reads."""
