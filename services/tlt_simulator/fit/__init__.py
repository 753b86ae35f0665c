"""Cost models that are fitted to recorded runs, and how well they predict what they were not fitted to."""
