"""
Journals that gateways and coordinators write for simulations: lengths, times and states, but no tokens or texts.

`format` defines the file format, `gateway_lines` and `coordinator_lines` the lines; `writer` writes them outside the
event loop, `reader` reads and validates them, `contents` summarizes them.
"""
