"""The suite as verl's rollout server. verl imports the plug-in by itself, and the router where its file names it."""

from tlt_common.integrations.verl import plugin
from tlt_common.integrations.verl.router import TltRouter

__all__ = ["TltRouter", "plugin"]
