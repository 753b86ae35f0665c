"""`tlt simulate`: estimates the suite's effect on a run, in virtual time with the product's own deciders."""
