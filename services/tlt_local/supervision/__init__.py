"""
Supervises the processes and files of a run, from start to complete removal.

Other packages may use all of it except `guard`, which is a separate program.
"""
