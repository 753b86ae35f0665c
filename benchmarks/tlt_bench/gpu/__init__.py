"""`tlt bench gpu`: all checks that need a GPU, in parts of a few minutes."""
