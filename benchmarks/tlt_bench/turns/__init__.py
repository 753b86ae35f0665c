"""`tlt bench turns`: conversations with tools, with and without sessions."""
