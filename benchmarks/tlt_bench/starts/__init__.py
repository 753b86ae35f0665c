"""Time until `tlt up` serves a model or reports why not: broken checkpoints, ports, services and engines."""
