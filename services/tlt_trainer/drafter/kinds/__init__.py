"""Kinds of drafters as torch modules. Their formats on disk are in `tlt_common.drafter`."""
