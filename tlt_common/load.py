"""What a gateway tells of the requests it runs: numbers of tokens, never tokens."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tlt_common.domain.bounds import INT32_MAX
from tlt_common.domain.ids import WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class CappedLoad:
    """Running requests that end at the same number of tokens at the latest."""

    cap: int
    counts: tuple[int, ...]
    """Requests by the bits of the number of tokens that they have generated: those with b bits are at b."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLoad:
    """Requests of a gateway at a worker."""

    worker_id: WorkerId
    running: tuple[CappedLoad, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncedRequests:
    """What a caller has announced; it replaces what the same caller of the same gateway announced before."""

    caller: int
    """Tells the callers of a gateway apart."""
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLoad:
    """What a gateway reports, twice a second at most."""

    workers: tuple[WorkerLoad, ...] = ()
    ended: tuple[int, ...] = ()
    """Lengths of responses that ended by themselves since the last report."""
    cut: tuple[int, ...] = ()
    """Lengths of those that a cap or an abort ended."""
    announced: tuple[AnnouncedRequests, ...] = ()
    """Requests of coming steps that were announced since the last report."""


def by_cap(requests: Iterable[tuple[int, int]]) -> tuple[CappedLoad, ...]:
    """
    Return requests, each with a cap and its generated tokens, as counts.

    Caps are rounded up to four significant bits: where the context is the limit, every prompt leaves another cap.
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
