"""Reward curves of both sides, and whether they differ by more than chance. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from countdown.record import Side

SIDES: tuple[Side, Side] = ("on", "off")


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One training run."""

    seed: int
    side: Side
    rewards: tuple[float, ...]
    """Mean reward of each step."""
    accept_length: float
    """Accept length of the last step."""
    max_staleness: int | None = None
    """Versions by which the first token of a response was behind the weights that learned from it, at most; None: not
    measured."""
    cut_share: float = 0.0
    """Share of the responses that were ended because they were too stale."""
    lent_share: float = 0.0
    """Worker-seconds of drafter training ÷ all."""


def compared(curves: Sequence[Curve]) -> dict[str, float]:
    """Compare the sides; `gap_limit` is two standard errors of the gap. Needs at least two seeds per side."""
    by_side = {side: [mean(curve.rewards) for curve in curves if curve.side == side] for side in SIDES}
    on, off = (by_side[side] for side in SIDES)
    spread = ((stdev(on) ** 2 + stdev(off) ** 2) / 2) ** 0.5
    gap = mean(on) - mean(off)
    limit = 2 * spread * (1 / len(on) + 1 / len(off)) ** 0.5
    last = {side: mean(curve.rewards[-1] for curve in curves if curve.side == side) for side in SIDES}
    stale = [curve.max_staleness for curve in curves if curve.max_staleness is not None]
    return {
        "reward_on": mean(on),
        "reward_off": mean(off),
        "reward_gap": gap,
        "seed_spread": spread,
        "gap_limit": limit,
        "within_spread": float(abs(gap) <= limit),
        "reward_last_on": last["on"],
        "reward_last_off": last["off"],
        "accept_length_on": mean(curve.accept_length for curve in curves if curve.side == "on"),
        "accept_length_off": mean(curve.accept_length for curve in curves if curve.side == "off"),
        **({"max_staleness": max(stale), "cut_share": mean(curve.cut_share for curve in curves)} if stale else {}),
        **({"lent_share_on": mean(c.lent_share for c in curves if c.side == "on")} if stale else {}),
    }
