"""
A process beside the gateway for programs that a caller or a model writes: templates, and text that looks like calls.

Such a program may run for hours, or need all memory. In a thread it would also keep Python's lock, and with it the
event loop: multiplying two large integers is a single instruction. A process can be limited, and killed. `process` is
the gateway's side, `child` the other one.
"""
