"""Rollouts for OpenRLHF's agents: an engine with the interface of vLLM's."""

from tlt_common.integrations.openrlhf import TltEngine

__all__ = ["TltEngine"]
