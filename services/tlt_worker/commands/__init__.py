"""Implementation of `tlt engine` and `tlt fetch`, imported by the command line only."""
