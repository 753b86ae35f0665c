"""`tlt bench neighbor`: CPU share of other programs while spot trainers run, and the usage of an idle suite."""
