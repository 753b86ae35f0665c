"""What the hooks take from SGLang's batches, and what they give back."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from tlt_common.errors import EngineError
from tlt_worker.scheduler.sampling.acceptance import NO_DRAFT, verifying
from tlt_worker.scheduler.sampling.hooks import (
    is_blocked,
    propose,
    sample_plainly,
    sample_with_plain_filters,
    seeds_of,
)
from tlt_worker.scheduler.sampling.settings import count_proposed

ALL = 1 << 30


def req(*, seed: int | None = None, blocked: bool = False, **fields: Any) -> Any:
    params = SimpleNamespace(sampling_seed=seed, custom_params={"tlt_speculation_off": blocked})
    return SimpleNamespace(sampling_params=params, spec_num_cap_tokens=0, is_retracted=False, **fields)


def batch(*reqs: Any, seeds: Tensor | None = None, has_processor: bool = False) -> Any:
    count = len(reqs)
    info = SimpleNamespace(
        sampling_seed=seeds, has_custom_logit_processor=has_processor, top_ks=torch.full((count,), 2),
        top_ps=torch.ones(count), min_ps=torch.zeros(count), need_top_k_sampling=True, need_top_p_sampling=False,
        need_min_p_sampling=False,
    )  # fmt: skip
    mode = SimpleNamespace(is_idle=lambda: False, is_extend=lambda: False)
    return SimpleNamespace(reqs=list(reqs), sampling_info=info, forward_mode=mode)


def verify_input() -> Any:
    return SimpleNamespace(draft_token_num=3, draft_token=torch.arange(6), positions=torch.arange(6))


def test_seeds_are_none_where_no_request_has_one() -> None:
    assert seeds_of([req(), req()], "cpu") is None
    seeds = seeds_of([req(seed=7), req()], "cpu")
    assert seeds is not None
    assert seeds.tolist() == [7, -1]


def test_a_request_without_custom_parameters_is_drafted_for() -> None:
    assert not is_blocked(SimpleNamespace(sampling_params=SimpleNamespace(custom_params=None)))
    assert is_blocked(req(blocked=True))


def test_kernels_are_told_of_the_batch_and_blocked_requests_lose_their_drafts() -> None:
    given, seeds, seen = verify_input(), torch.tensor([3, -1]), dict[str, Any]()
    two = batch(req(), req(blocked=True), seeds=seeds)

    def sample(found: Any, of: Any) -> str:
        seen.update(drafts=found.draft_token.tolist(), now=verifying.get(), seed=of.sampling_info.sampling_seed)
        return "done"

    assert sample_with_plain_filters(sample, given, two) == "done"
    assert seen["drafts"] == [0, 1, 2, 3, NO_DRAFT, NO_DRAFT]
    assert seen["seed"] is None
    assert seen["now"].seeds is seeds
    assert seen["now"].positions.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert seen["now"].cuts.top_ks.tolist() == [2, 2]
    assert two.sampling_info.sampling_seed is seeds
    assert verifying.get() is None


def test_custom_logit_processors_are_refused() -> None:
    with pytest.raises(EngineError, match="not supported"):
        sample_with_plain_filters(lambda *_: None, verify_input(), batch(req(), has_processor=True))


def test_first_tokens_keep_to_the_filters() -> None:
    torch.manual_seed(0)
    probs = torch.tensor([[0.3, 0.3, 0.3, 0.1]]).expand(500, -1)
    info = batch(*[req()] * 500).sampling_info
    tokens, mask = sample_plainly(None, probs, info, torch.zeros(500, dtype=torch.int64), True)
    assert (mask, tokens.dtype) == (None, torch.int32)
    assert sorted(set(tokens.tolist())) == [0, 1]


def test_drafts_without_seeds_are_sglangs() -> None:
    probs = torch.tensor([[0.25, 0.75]])
    drawn = (torch.tensor([[0.75]]), torch.tensor([[1]]))
    assert propose(lambda *_, **__: drawn, probs, positions=torch.tensor([1])) == drawn


def test_verified_drafts_are_counted_for_those_that_may_keep_them() -> None:
    reqs = [req(finished=bool), req(blocked=True, finished=bool), req(finished=lambda: True)]
    count_proposed(batch(*reqs), SimpleNamespace(speculative_num_draft_tokens=8))
    assert [one.spec_num_cap_tokens for one in reqs] == [7, 0, 0]
