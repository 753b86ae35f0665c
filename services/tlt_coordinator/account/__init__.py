"""
What the fleet's time was used for, and what is exported of it.

Others may use all of it but `lent_time`; it imports nothing else of the coordinator.
"""
