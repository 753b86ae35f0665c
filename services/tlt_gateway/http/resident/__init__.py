"""
Runs programs and text written by callers or models in a separate process: chat templates and tool-call parsers.

Such a program may run for hours or use all memory. In a thread it could also hold the GIL and block the event loop:
multiplying two large integers is a single instruction. A process can be limited and killed. `process` is the gateway's
side, `child` the side that does the work.
"""
