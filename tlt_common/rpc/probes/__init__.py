"""Whether this process is ready and alive, for probes and operators."""
