"""
Accounting of the fleet's time, and its metrics.

Other packages may use all of it except `lent_time`. It imports nothing else of the coordinator.
"""
