"""`tlt bench neighbor`: what other programs of the machine get while spot trainers run, and what an idle suite takes."""
