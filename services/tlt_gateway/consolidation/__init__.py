"""
Which running requests move to which workers in the tail of a step, so that devices can be lent. Pure.

Others use `moves`, `ends_s`, `Planned` and `TailVerdict`.
"""
