"""`tlt simulate`: what the suite would bring to a run. Commands import what they need when they run."""

from tlt_simulator.cli.app import app

__all__ = ["app"]
