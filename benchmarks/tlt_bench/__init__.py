"""`tlt bench NAME`: the project's performance figures, each measured against its baseline in one run."""
