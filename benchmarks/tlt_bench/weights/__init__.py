"""`tlt bench weights`: duration of a weight update compared to one raw copy of the same bytes."""
