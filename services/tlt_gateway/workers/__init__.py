"""
The workers as a gateway sees them: found, watched, called.

Others use `WorkerPool`, `PooledWorker`, `routing` and `ResponseStream`.
"""
