"""
The queue in front of the workers: admission, order, and the choice of a worker.

Others use `Admission`, `QueueCapacity`, `WorkerSlots` and `Gate`.
"""
