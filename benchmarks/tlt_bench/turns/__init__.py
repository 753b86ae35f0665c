"""`tlt bench turns`: conversations with tools, with sessions and without."""
