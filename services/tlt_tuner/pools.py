"""
Pooled statistics of a fleet's arms. Pure, in memory, and bounded regardless of the number of reports.

Rewards of a fleet's engines with one model on one kind of device are pooled as long as the drafter stays the same. A
newer drafter resets the pool, since rewards of its predecessor do not apply to it, except for arms without a drafter.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import NamedTuple

from tlt_common.bandit.windows import pooled
from tlt_common.domain.arm import ArmWindow, arm_named
from tlt_common.domain.ids import DrafterVersion
from tlt_common.domain.tuner import PoolKey, Posterior
from tlt_common.errors import InvalidRequestError

POOLS = 64
"""Maximum number of pools; the least recently updated one is evicted first."""

ARMS_PER_POOL = 256
"""Maximum number of pairs of arm and batch-size group per pool, far more than an engine has."""

WINDOWS_PER_ARM = 64
"""Reports kept per arm and group: two minutes of one busy engine, which reports every two seconds."""


class PoolName(NamedTuple):
    """Key of a pool."""

    fleet: str
    model: str
    device: str


def name_of(key: PoolKey) -> PoolName:
    """Return the name of the pool to which a report belongs."""
    return PoolName(key.fleet, key.model, key.device)


class Pool:
    """The latest windows of one fleet, model and kind of device, for its newest drafter."""

    def __init__(self) -> None:
        self._version = DrafterVersion(0)
        self._windows: dict[tuple[str, int], deque[ArmWindow]] = {}

    def add(self, version: DrafterVersion, windows: Iterable[ArmWindow]) -> bool:
        """
        Pool the windows; return whether the pool changed.

        Windows of an older drafter are ignored, except those of arms without a drafter.

        Raises:
            InvalidRequestError: There are more pairs of arm and group than ARMS_PER_POOL.
        """
        fresh = version > self._version
        news = [window for window in windows if window.rounds and (version >= self._version or not _learned(window))]
        kept = {cell: old for cell, old in self._windows.items() if not (fresh and _learned(old[0]))}
        names = kept.keys() | {(window.arm, window.group) for window in news}
        if len(names) > ARMS_PER_POOL:
            raise InvalidRequestError(
                f"arms would bring the pool to {len(names)} pairs of arm and group; accepted: {ARMS_PER_POOL}",
                field="arms",
            )
        self._version, self._windows = max(version, self._version), kept
        for window in news:
            kept.setdefault((window.arm, window.group), deque(maxlen=WINDOWS_PER_ARM)).append(window)
        return fresh or bool(news)

    def restore(self, posterior: Posterior) -> None:
        """Restore an earlier process's pool, except where this process has newer data."""
        newer = tuple(arm for arm in posterior.arms if (arm.arm, arm.group) not in self._windows)
        self.add(posterior.drafter_version, newer if posterior.drafter_version <= self._version else posterior.arms)

    def posterior(self) -> Posterior:
        """Return the pooled statistics of each arm and group."""
        return Posterior(
            drafter_version=self._version, arms=tuple(pooled(tuple(windows)) for windows in self._windows.values())
        )


class Pools:
    """All pools."""

    def __init__(self) -> None:
        self._pools: OrderedDict[PoolName, Pool] = OrderedDict()

    def add(self, key: PoolKey, windows: Sequence[ArmWindow]) -> bool:
        """
        Pool an engine's windows for the drafter of the key; return whether the pool changed.

        Raises:
            InvalidRequestError: The key has no model, or a window is invalid.
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
        """Restore an earlier process's pool."""
        pool = self._pools.get(name, Pool())
        pool.restore(posterior)
        self._use(name, pool)

    def known(self) -> Mapping[PoolName, Posterior]:
        """Return the posterior of every pool."""
        return {name: pool.posterior() for name, pool in self._pools.items()}

    def _use(self, name: PoolName, pool: Pool) -> None:
        self._pools[name] = pool
        self._pools.move_to_end(name)
        if len(self._pools) > POOLS:
            self._pools.popitem(last=False)

    def posterior(self, name: PoolName) -> Posterior | None:
        """Return the posterior of a pool; None if the pool is unknown."""
        pool = self._pools.get(name)
        return pool.posterior() if pool else None


def _learned(window: ArmWindow) -> bool:
    return arm_named(window.arm).needs_drafter


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
