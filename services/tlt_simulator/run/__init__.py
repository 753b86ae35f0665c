"""Discrete events in virtual time: fleet, gateway, coordinator and trainers, with the deciders of the product."""

from tlt_simulator.run.simulation import compare, simulate, with_rollout_share

__all__ = ["compare", "simulate", "with_rollout_share"]
