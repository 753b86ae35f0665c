"""`tlt bench forecast`: forecasts of lengths against what came, in virtual time."""
