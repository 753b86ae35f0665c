"""
Gateways' requests on this worker: runs and streams them, and keeps responses of lost gateways for a while.

`Worker` assembles them.
"""
