"""A gateway's report on its requests: numbers of tokens, never tokens."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tlt_common.domain.bounds import INT32_MAX
from tlt_common.domain.ids import WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class CappedLoad:
    """Running requests with the same maximum number of tokens."""

    cap: int
    counts: tuple[int, ...]
    """Number of requests by bit length of their generated tokens: index b counts those with b bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLoad:
    """Requests of a gateway at one worker."""

    worker_id: WorkerId
    running: tuple[CappedLoad, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncedRequests:
    """A caller's announcement, which replaces the earlier one of the same caller at the same gateway."""

    caller: int
    """Distinguishes the callers of a gateway."""
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLoad:
    """A gateway's report, sent at most twice a second."""

    workers: tuple[WorkerLoad, ...] = ()
    ended: tuple[int, ...] = ()
    """Lengths of responses that ended by themselves since the last report."""
    cut: tuple[int, ...] = ()
    """Lengths of responses that a cap or an abort ended."""
    announced: tuple[AnnouncedRequests, ...] = ()
    """Requests of coming steps announced since the last report."""


def by_cap(requests: Iterable[tuple[int, int]]) -> tuple[CappedLoad, ...]:
    """
    Count requests, given the cap and generated tokens of each.

    Caps are rounded up to four significant bits: if the context is the limit, every prompt leaves a different cap.
    """
    counts: dict[int, Counter[int]] = {}
    for cap, generated in requests:
        counts.setdefault(_coarse(cap), Counter())[generated.bit_length()] += 1
    return tuple(
        CappedLoad(cap=cap, counts=tuple(of[bits] for bits in range(max(of) + 1))) for cap, of in sorted(counts.items())
    )


def _coarse(cap: int) -> int:
    step = 1 << max(0, cap.bit_length() - 4)
    return min(-(-cap // step) * step, INT32_MAX)
