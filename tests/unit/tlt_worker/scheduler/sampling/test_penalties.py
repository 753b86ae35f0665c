"""Penalties against their formulas."""

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from tlt_common.domain.prompt import SamplingParams
from tlt_worker.link.penalty import Penalty
from tlt_worker.scheduler.sampling.penalties import Penalties

VOCABULARY = 6


def req(rid: str, sampling: SamplingParams, *, said: tuple[int, ...] = (), prefix: tuple[int, ...] = ()) -> Any:
    custom = {"tlt_penalty": Penalty.of(sampling).packed(), "tlt_prefix": len(prefix)}
    return SimpleNamespace(
        rid=rid,
        origin_input_ids=[0, 0, *prefix],
        output_ids=list(said),
        eos_token_ids={5},
        sampling_params=SimpleNamespace(custom_params=custom, stop_token_ids={4}),
    )


def applied(penalties: Penalties, *reqs: Any) -> tuple[Tensor | None, Tensor | None]:
    info = SimpleNamespace(
        temperatures=torch.ones(len(reqs), 1), acc_additive_penalties=None, acc_scaling_penalties=None
    )
    penalties.apply(reqs, info)
    return info.acc_additive_penalties, info.acc_scaling_penalties


def roots(*tokens: int) -> Any:
    return SimpleNamespace(bonus_tokens=torch.tensor(tokens, dtype=torch.int32))


def test_batches_without_penalties_are_left_alone() -> None:
    penalties, plain = Penalties(VOCABULARY), req("a", SamplingParams())
    penalties.begin([plain], "cpu")
    assert applied(penalties, plain) == (None, None)


def test_every_token_of_the_response_counts_and_none_of_the_prompt() -> None:
    penalties = Penalties(VOCABULARY)
    one = req("a", SamplingParams(frequency_penalty=0.5, presence_penalty=0.25, repetition_penalty=2.0), prefix=(1, 1))
    plain = req("b", SamplingParams())
    penalties.begin([one, plain], "cpu")
    added, divided = applied(penalties, one, plain)
    assert added is not None
    assert divided is not None
    assert added.tolist() == [[0, -1.25, 0, 0, 0, 0], [0] * 6]
    assert divided.tolist() == [[1, 2, 1, 1, 1, 1], [1] * 6]
    penalties.follow([plain, one], roots(3, 2))
    added, _ = applied(penalties, plain, one)
    assert added is not None
    assert added.tolist() == [[0] * 6, [0, -1.25, -0.75, 0, 0, 0]]


def test_counts_begin_again_when_a_request_was_retracted() -> None:
    penalties, one = Penalties(VOCABULARY), req("a", SamplingParams(frequency_penalty=1.0), prefix=(1,))
    penalties.begin([one], "cpu")
    penalties.follow([one], roots(2))
    one.output_ids = [2, 2, 3]
    penalties.begin([one], "cpu")
    added, _ = applied(penalties, one)
    assert added is not None
    assert added.tolist() == [[0, -1, -2, -1, 0, 0]]


def test_end_tokens_wait_for_the_least_length_prefix_included() -> None:
    penalties, one = Penalties(VOCABULARY), req("a", SamplingParams(min_new_tokens=3), prefix=(1, 1))
    penalties.begin([one], "cpu")
    added, _ = applied(penalties, one)
    assert added is not None
    assert added.isinf().tolist() == [[False] * 4 + [True] * 2]
    penalties.follow([one], roots(1))
    added, _ = applied(penalties, one)
    assert added is not None
    assert not added.any()
