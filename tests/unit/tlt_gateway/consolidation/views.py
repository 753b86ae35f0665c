"""Tails for tests."""

from dataclasses import replace

from tlt_common.domain.ids import WorkerId
from tlt_common.forecast import Left, TailRequest, TailView, TailWorker, TokenPace

PACE = TokenPace(tokens_s=((0.007, 2e-8), (0.0071, 2e-8), (0.0072, 2e-8), (0.0073, 2e-8)), prefill_token_s=3e-5)
STEEP = replace(PACE, tokens_s=((0.007, 0.0), (0.014, 0.0), (0.021, 0.0), (0.028, 0.0)))
"""A device on which two take twice as long as one."""


def left(median: float, *, spread: float = 1.2) -> Left:
    return Left(tuple(median * spread**place for place in (-3, -2, -1, 0, 1, 2, 3)))


def worker(number: int, **changes: object) -> TailWorker:
    one = TailWorker(worker_id=WorkerId(f"w{number}"), pace=PACE, slots=64, kv_room=900_000, lendable=True)
    return replace(one, **changes)  # type: ignore[arg-type] # of these fields


def request(ref: int, at: int, tokens: float, *, kv_tokens: int = 5000, spread: float = 1.2) -> TailRequest:
    return TailRequest(
        gateway_id="g",
        ref=ref,
        worker_id=WorkerId(f"w{at}"),
        kv_tokens=kv_tokens,
        left=left(tokens, spread=spread),
    )


def view(workers: list[TailWorker], requests: list[TailRequest]) -> TailView:
    return TailView(serial=1, workers=tuple(workers), requests=tuple(requests))
