"""
What `tlt up` is told, and the checks made before anything starts.

Others may use all of it.
"""
