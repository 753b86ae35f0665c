"""
Requests from arrival to completion.

The gateway uses `Dispatch`, `Batches` and `Requests`; everything else is internal.
"""
