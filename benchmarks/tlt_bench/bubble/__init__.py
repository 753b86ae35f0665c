"""`tlt bench bubble`: what idle devices are used for."""
