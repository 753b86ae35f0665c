"""`tlt bench simulate`: the simulator compared to the simulated services, in real time."""
