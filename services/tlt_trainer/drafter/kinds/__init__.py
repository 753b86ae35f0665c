"""Kinds of drafters as modules of torch. What they are on disk is in `tlt_common.drafter`."""
