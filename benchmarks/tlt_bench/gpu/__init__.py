"""`tlt bench gpu`: everything there is to run on a machine with a GPU, in parts that end within minutes."""
