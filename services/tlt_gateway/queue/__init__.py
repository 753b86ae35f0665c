"""
The queue in front of the workers: who may enter, who is next, and which worker runs it.

Others use `Admission`, `QueueRoom`, `WorkerSlots` and `Room`.
"""
