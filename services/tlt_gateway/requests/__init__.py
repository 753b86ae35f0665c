"""
Requests from their arrival to their end.

The gateway uses `Dispatch`, `Batches`, `Requests` and `Tail`; nothing else is for others.
"""
