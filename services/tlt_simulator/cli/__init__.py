"""Commands of `tlt simulate`, which import their dependencies when they run."""

from tlt_simulator.cli.app import app

__all__ = ["app"]
