"""`tlt bench gpu`: all checks that need a GPU, in parts that end within minutes."""
