"""`tlt bench control`: the coordinator under simulated fleets."""
