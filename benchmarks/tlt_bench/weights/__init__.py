"""`tlt bench weights`: the time of a weight update against one raw copy of the same bytes."""
