"""
Requests of gateways on this worker: run, streamed, kept for a while if their gateway is lost.

`Worker` assembles them.
"""
