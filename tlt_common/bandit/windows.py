"""Combines windows of an arm."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from tlt_common.bandit.reward import weighted_median
from tlt_common.domain.arm import ArmWindow


def pooled(windows: Sequence[ArmWindow]) -> ArmWindow:
    """
    Combine windows of one arm and group, at least one.

    The median of a union is not known from the medians of its parts; their median weighted by rounds is used,
    independent of their order.
    """
    return ArmWindow(
        arm=windows[0].arm,
        group=windows[0].group,
        rounds=sum(window.rounds for window in windows),
        accepted_tokens=sum(window.accepted_tokens for window in windows),
        produced_tokens=sum(window.produced_tokens for window in windows),
        elapsed_s=sum(window.elapsed_s for window in windows),
        median_reward=weighted_median((window.median_reward, window.rounds) for window in windows),
        drafted_tokens=sum(window.drafted_tokens for window in windows),
        kv_tokens=sum(window.kv_tokens for window in windows),
    )


def merged(windows: Iterable[ArmWindow]) -> tuple[ArmWindow, ...]:
    """Combine windows into one per arm and group."""
    cells: dict[tuple[str, int], list[ArmWindow]] = defaultdict(list)
    for window in windows:
        cells[window.arm, window.group].append(window)
    return tuple(pooled(parts) for _, parts in sorted(cells.items()))
