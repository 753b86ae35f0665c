"""
What a fleet has learned about its arms. Pure, in memory, and bounded however many report and for however long.

Rewards of one fleet's engines with one model on one kind of device are pooled while the drafter stays the same. A newer
drafter starts afresh, since rewards of the one before say nothing of it, but for arms that do not use it.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import NamedTuple

from tlt_common.bandit import weighted_median
from tlt_common.domain.ids import DrafterVersion
from tlt_common.domain.strategy import ArmWindow, arm_named
from tlt_common.domain.tuner import PoolKey, Posterior
from tlt_common.errors import InvalidRequestError

POOLS = 64
"""Fleets, models and devices remembered; the one not heard of for longest is forgotten first."""

ARMS_PER_POOL = 256
"""Pairs of arm and batch-size group per pool, far above what an engine has."""

WINDOWS_PER_ARM = 64
"""Reports remembered per arm and group: two minutes of one busy engine, which reports every two seconds."""


class PoolName(NamedTuple):
    """What tells pools apart."""

    fleet: str
    model: str
    device: str


def name_of(key: PoolKey) -> PoolName:
    """Name the pool that a report goes to."""
    return PoolName(key.fleet, key.model, key.device)


class Pool:
    """The latest windows of one fleet, model and kind of device, for its newest drafter."""

    def __init__(self) -> None:
        self._version = DrafterVersion(0)
        self._windows: dict[tuple[str, int], deque[ArmWindow]] = {}

    def add(self, version: DrafterVersion, windows: Iterable[ArmWindow]) -> bool:
        """
        Pool the windows; return whether that changed anything.

        Windows of an older drafter come too late and do not, but for arms that do not use it.

        Raises:
            InvalidRequestError: There are more arms than any engine has.
        """
        fresh = version > self._version
        news = [window for window in windows if window.rounds and (version >= self._version or not _learned(window))]
        kept = {cell: old for cell, old in self._windows.items() if not (fresh and _learned(old[0]))}
        names = kept.keys() | {(window.arm, window.group) for window in news}
        if len(names) > ARMS_PER_POOL:
            raise InvalidRequestError(
                f"arms name {len(names)} pairs of arm and group; accepted: {ARMS_PER_POOL}", field="arms"
            )
        self._version, self._windows = max(version, self._version), kept
        for window in news:
            kept.setdefault((window.arm, window.group), deque(maxlen=WINDOWS_PER_ARM)).append(window)
        return fresh or bool(news)

    def restore(self, posterior: Posterior) -> None:
        """Take over what was known before this process began, where it is not known better by now."""
        newer = tuple(arm for arm in posterior.arms if (arm.arm, arm.group) not in self._windows)
        self.add(posterior.drafter_version, newer if posterior.drafter_version <= self._version else posterior.arms)

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
        name = name_of(key)
        pool = self._pools.get(name, Pool())
        changed = pool.add(key.drafter_version, windows)
        self._use(name, pool)
        return changed

    def restore(self, name: PoolName, posterior: Posterior) -> None:
        """Take over what was known of a pool before this process began."""
        pool = self._pools.get(name, Pool())
        pool.restore(posterior)
        self._use(name, pool)

    def known(self) -> Mapping[PoolName, Posterior]:
        """What is known in every pool."""
        return {name: pool.posterior() for name, pool in self._pools.items()}

    def _use(self, name: PoolName, pool: Pool) -> None:
        self._pools[name] = pool
        self._pools.move_to_end(name)
        if len(self._pools) > POOLS:
            self._pools.popitem(last=False)

    def posterior(self, name: PoolName) -> Posterior | None:
        """What is known in a pool; None: nothing."""
        pool = self._pools.get(name)
        return pool.posterior() if pool else None


def _learned(window: ArmWindow) -> bool:
    return arm_named(window.arm).learned


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
    try:
        arm_named(window.arm)
    except ValueError as error:
        raise InvalidRequestError(f"{where}.arm: {error}", field=f"{where}.arm") from error
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
