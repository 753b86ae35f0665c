"""Which checkpoints an engine can run, told from their files before anything is launched. Needs no torch."""
