"""Default addresses of a local suite. Imports nothing, so that `tlt --help` stays fast."""

HOST = "127.0.0.1"
PORT = 7700
"""Default port of the rollout endpoint of `tlt up`; `tlt status` connects to the coordinator on the next one."""
MAX_PORT = 2**16 - 4
"""Largest port of the endpoint, since coordinator, status page and the endpoint over HTTP use the next three."""
