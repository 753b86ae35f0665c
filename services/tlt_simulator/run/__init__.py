"""Discrete-event simulation in virtual time: fleet, gateway, coordinator and trainers, with the product's deciders."""

from tlt_simulator.run.simulation import compare, simulate, with_rollout_share

__all__ = ["compare", "simulate", "with_rollout_share"]
