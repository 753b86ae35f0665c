"""`tlt bench consolidate`: moving requests in the tail of a step, against leaving them where they are."""
