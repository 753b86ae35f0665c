"""The whole suite on one machine: `tlt up` and `tlt status`."""
