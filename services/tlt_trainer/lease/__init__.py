"""
The device while a lease lasts: calls short enough to be taken back between, and who has the learner.

Others may use all of it but `device_clock`.
"""
