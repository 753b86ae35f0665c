"""How soon `tlt up` says why it does not start: broken checkpoints, ports, services and engines."""
