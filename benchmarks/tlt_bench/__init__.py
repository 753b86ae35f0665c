"""`tlt bench NAME`: every performance figure of the project, measured against its baseline in one run."""
