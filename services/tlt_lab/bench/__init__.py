"""`tlt bench NAME`: every figure the project claims, measured against its baseline in one run."""
