"""What others have published: rounds, accept lengths and speedups, each with its source."""
