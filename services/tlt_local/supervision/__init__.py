"""
The processes and files of a run, from their start until nothing is left of them.

Others may use all of it but `guard`, which is a program of its own.
"""
