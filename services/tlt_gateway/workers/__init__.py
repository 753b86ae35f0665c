"""
The workers as a gateway sees them: discovery, health and calls.

Others use `WorkerPool`, `PooledWorker`, `routing` and `ResponseStream`.
"""
