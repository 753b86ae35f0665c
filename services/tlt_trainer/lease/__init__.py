"""
The device during a lease: short calls that can be interrupted in between, and exclusive use of the learner.

Other packages may use all of it except `device_clock`.
"""
