"""
The queue in front of the workers: admission, order, and the choice of a worker.

Others use `Admission`, `QueueRoom`, `WorkerSlots` and `Room`.
"""
