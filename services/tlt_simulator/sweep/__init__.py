"""
Simulates many variants of a scenario over the cores of a machine, resumably.

Others use `changed`, `Variant`, `Outcome`, `outcomes`, `Sweep`, `rows_of` and `ResultsFile`.
"""
