"""`tlt bench page`: the coordinator's page in a browser, over simulated fleets."""
