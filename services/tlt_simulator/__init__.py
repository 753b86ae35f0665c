"""`tlt simulate`: what the suite would bring to a run, calculated in virtual time with the product's own deciders."""
