"""
What a fleet has learned about its arms. Pure, in memory, and bounded however many report and for however long.

Rewards of one model on one kind of device are pooled while the drafter stays the same; a newer drafter starts afresh,
since rewards of the one before say nothing of it.
"""

from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import isfinite
from typing import NamedTuple

from tlt_common.domain.ids import DrafterVersion
from tlt_common.domain.strategy import ArmWindow
from tlt_common.domain.tuner import PoolKey, Posterior
from tlt_common.errors import InvalidRequestError

POOLS = 64
"""Pairs of model and device remembered; the one not heard of for longest is forgotten first."""

ARMS_PER_POOL = 256
"""Pairs of arm and batch-size group per pool, far above what an engine has."""

WINDOWS_PER_ARM = 64
"""Reports remembered per arm and group: two minutes of one busy engine, which reports every two seconds."""


class PoolName(NamedTuple):
    """What tells pools apart."""

    model: str
    device: str


class Pool:
    """The latest windows of one model on one kind of device, for its newest drafter."""

    def __init__(self) -> None:
        self._version = DrafterVersion(0)
        self._windows: dict[tuple[str, int], deque[ArmWindow]] = {}

    def add(self, version: DrafterVersion, windows: Iterable[ArmWindow]) -> bool:
        """
        Pool the windows; return whether that changed anything. Windows of an older drafter come too late and do not.

        Raises:
            InvalidRequestError: There are more arms than any engine has.
        """
        if version < self._version:
            return False
        fresh = version > self._version
        kept = {} if fresh else self._windows
        news = [window for window in windows if window.rounds]
        names = kept.keys() | {(window.arm, window.group) for window in news}
        if len(names) > ARMS_PER_POOL:
            raise InvalidRequestError(
                f"arms name {len(names)} pairs of arm and group; accepted: {ARMS_PER_POOL}", field="arms"
            )
        self._version, self._windows = version, kept
        for window in news:
            kept.setdefault((window.arm, window.group), deque(maxlen=WINDOWS_PER_ARM)).append(window)
        return fresh or bool(news)

    def posterior(self) -> Posterior:
        """What is known of each arm in each group."""
        return Posterior(
            drafter_version=self._version, arms=tuple(_pooled(tuple(windows)) for windows in self._windows.values())
        )


class Pools:
    """All pools."""

    def __init__(self) -> None:
        self._pools: OrderedDict[PoolName, Pool] = OrderedDict()

    def add(self, key: PoolKey, windows: Sequence[ArmWindow]) -> bool:
        """
        Pool what an engine saw with the drafter of the key; return whether that changed anything.

        Raises:
            InvalidRequestError: The key names no model, or a window holds what no engine can have seen.
        """
        if not key.model:
            raise InvalidRequestError("key.model is empty; accepted: a name or directory", field="key.model")
        for position, window in enumerate(windows):
            _check(f"arms[{position}]", window)
        name = PoolName(key.model, key.device)
        pool = self._pools.get(name, Pool())
        changed = pool.add(key.drafter_version, windows)
        self._pools[name] = pool
        self._pools.move_to_end(name)
        if len(self._pools) > POOLS:
            self._pools.popitem(last=False)
        return changed

    def posterior(self, name: PoolName) -> Posterior | None:
        """What is known in a pool; None: nothing."""
        pool = self._pools.get(name)
        return pool.posterior() if pool else None


def weighted_median(values: Iterable[tuple[float, int]]) -> float:
    """Smallest value that at least half of the weight does not exceed. Of at least one (value, weight above 0)."""
    ordered = sorted(values)
    reached = tuple(accumulate(weight for _, weight in ordered))
    return ordered[bisect_left(reached, reached[-1] / 2)][0]


def _pooled(windows: Sequence[ArmWindow]) -> ArmWindow:
    return ArmWindow(
        arm=windows[0].arm,
        group=windows[0].group,
        rounds=sum(window.rounds for window in windows),
        accepted_tokens=sum(window.accepted_tokens for window in windows),
        produced_tokens=sum(window.produced_tokens for window in windows),
        elapsed_s=sum(window.elapsed_s for window in windows),
        median_reward=weighted_median((window.median_reward, window.rounds) for window in windows),
        drafted_tokens=sum(window.drafted_tokens for window in windows),
    )


def _check(where: str, window: ArmWindow) -> None:
    if not window.arm:
        raise InvalidRequestError(f"{where}.arm is empty; accepted: the name of an arm", field=f"{where}.arm")
    for name, value in (
        ("group", window.group),
        ("round_count", window.rounds),
        ("accepted_tokens", window.accepted_tokens),
        ("produced_tokens", window.produced_tokens),
        ("drafted_tokens", window.drafted_tokens),
        ("elapsed_s", window.elapsed_s),
        ("median_reward", window.median_reward),
    ):
        if not (isfinite(value) and value >= 0):
            raise InvalidRequestError(f"{where}.{name} is {value}; accepted: at least 0", field=f"{where}.{name}")
