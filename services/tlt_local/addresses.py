"""Where a local suite listens. Imports nothing, so that `tlt --help` stays fast."""

HOST = "127.0.0.1"
PORT = 7700
"""Default port of the rollout endpoint of `tlt up`; `tlt status` connects to the coordinator on the next one."""
MAX_PORT = 2**16 - 3
"""Largest port of the endpoint, since the coordinator and its status page use the next two."""
