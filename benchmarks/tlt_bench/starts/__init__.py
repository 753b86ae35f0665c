"""How soon `tlt up` serves a model, or says why it does not start: broken checkpoints, ports, services and engines."""
