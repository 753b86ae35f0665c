"""`tlt bench neighbor`: what other programs get while spot trainers run, and what an idle suite takes."""
