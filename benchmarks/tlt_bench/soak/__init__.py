"""
`tlt bench load --minutes`: memory that a gateway and a coordinator retain after requests end.

Others use `measure`.
"""
