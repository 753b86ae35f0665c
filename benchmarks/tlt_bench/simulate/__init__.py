"""`tlt bench simulate`: the simulator against the services that it simulates, in real time."""
