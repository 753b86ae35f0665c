"""Values of prompts stay with their requests, also if SGLang skips one of the batch."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tlt_worker.scheduler.sampling.logprobs import drop_skipped_prompts

VALUES = torch.tensor([1.0, 1, 2, 2, 2, 4])
"""Two values of the first request, three of the second, none of the third, and one of the fourth."""


def req(*, retracted: bool = False, finished: bool = False, middle_chunks: int = 0) -> Any:
    return SimpleNamespace(is_retracted=retracted, finished=lambda: finished, inflight_middle_chunks=middle_chunks)


def processed(*reqs: Any, is_extend: bool = True) -> list[float]:
    batch = SimpleNamespace(reqs=list(reqs), forward_mode=SimpleNamespace(is_extend=lambda: is_extend))
    output = SimpleNamespace(input_token_logprobs=VALUES.clone(), finalize_input_logprobs=lambda: None)
    result = SimpleNamespace(
        logits_output=output,
        copy_done=SimpleNamespace(synchronize=lambda: None),
        extend_input_len_per_req=[3, 9, 5, 6],
        extend_logprob_start_len_per_req=[1, 6, 5, 5],
    )
    drop_skipped_prompts(batch, result)
    found: list[float] = output.input_token_logprobs.tolist()
    return found


@pytest.mark.parametrize("skipped", [{"retracted": True}, {"finished": True}, {"retracted": True, "finished": True}])
def test_a_skipped_request_leaves_no_values_to_others(skipped: dict[str, bool]) -> None:
    plain = req()
    assert processed(req(**skipped), plain, plain, plain) == [2, 2, 2, 4]
    assert processed(plain, req(**skipped), plain, plain) == [1, 1, 4]
    assert processed(plain, plain, plain, req(**skipped)) == [1, 1, 2, 2, 2]
    assert processed(*(req(**skipped) for _ in range(4))) == []


def test_what_sglang_does_not_skip_keeps_its_values() -> None:
    plain, aborted_in_a_chunk = req(), req(finished=True, middle_chunks=1)
    for reqs in ((plain,) * 4, (plain, plain, req(retracted=True), plain), (aborted_in_a_chunk, plain, plain, plain)):
        assert processed(*reqs) == VALUES.tolist()
    assert processed(req(retracted=True), plain, plain, plain, is_extend=False) == VALUES.tolist()


@pytest.mark.parametrize("result", [
    SimpleNamespace(logits_output=None, extend_logprob_start_len_per_req=[0]),
    SimpleNamespace(logits_output=SimpleNamespace(input_token_logprobs=None), extend_logprob_start_len_per_req=[0]),
    SimpleNamespace(logits_output=None, extend_logprob_start_len_per_req=None),
])  # fmt: skip
def test_a_round_without_values_is_left_alone(result: Any) -> None:
    drop_skipped_prompts(SimpleNamespace(), result)
