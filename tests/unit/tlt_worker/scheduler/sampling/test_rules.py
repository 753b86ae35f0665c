"""Small decisions of the engine: blockers, arms, devices, options, responses."""

from pathlib import Path
from typing import Any

import pytest

from tlt_common.config.loader import resolve
from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import LogprobKind, Prompt, SamplingParams, Speculation
from tlt_common.domain.response import FinishReason
from tlt_common.errors import ConfigError
from tlt_worker.config import WorkerConfig
from tlt_worker.engine.device import CPU, CUDA
from tlt_worker.engine.response import Response, sglang_params, speculation_blocker
from tlt_worker.link.request_id import request_id, sglang_rid


@pytest.mark.parametrize(
    "changed",
    [{"frequency_penalty": 0.1}, {"presence_penalty": -0.5}, {"repetition_penalty": 1.1}, {"min_new_tokens": 4}],
)
def test_settings_that_change_from_token_to_token_block_speculation(changed: dict[str, Any]) -> None:
    assert next(iter(changed)) in (speculation_blocker(SamplingParams(**changed)) or "")


@pytest.mark.parametrize("changed", [{}, {"temperature": 0.0}, {"top_p": 0.5, "top_k": 3, "min_p": 0.1}, {"seed": 3}])
def test_settings_that_hold_for_every_token_do_not(changed: dict[str, Any]) -> None:
    assert speculation_blocker(SamplingParams(**changed)) is None


def test_the_standin_is_for_machines_without_cuda() -> None:
    assert CUDA.variables() == {}
    assert "standin" in CPU.variables()["PYTHONPATH"]
    assert "stand-in" in CPU.describe()


@pytest.mark.parametrize(("field", "value"), [("dtype", "int8"), ("max_running", 0), ("threads", 0)])
def test_options_out_of_range_are_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(ConfigError) as refused:
        resolve(WorkerConfig, "worker", {"model": "/m", "engine": {field: value}}, environment={})
    assert refused.value.field == f"engine.{field}"


def test_no_request_id_is_the_beginning_of_another() -> None:
    assert not sglang_rid(RequestId("R/10")).startswith(sglang_rid(RequestId("R/1")))
    assert request_id(sglang_rid(RequestId("R/1"))) == "R/1"


MODEL = Path("model")
PROMPT = Prompt(request_id=RequestId("r"), token_ids=(1, 2), sampling=SamplingParams(max_new_tokens=9))


def output(ids: list[int], completion: int, *, finish: str | None = None, **meta: Any) -> dict[str, Any]:
    return {
        "output_ids": ids,
        "meta_info": {
            "completion_tokens": completion,
            "output_token_logprobs": [(-0.5, token, None) for token in ids],
            "finish_reason": None if finish is None else {"type": finish},
            "weight_version": "3",
            **meta,
        },
    }


def test_chunks_hold_what_is_new() -> None:
    response = Response(prompt=PROMPT)
    first = response.chunk(output([5, 6], 2))
    assert (first.token_ids, first.logprobs, first.policy_versions) == ((5, 6), (-0.5, -0.5), (3, 3))
    last = response.chunk(output([7], 3, finish="length", spec_verify_ct=1, spec_num_correct_drafts=1))
    assert last.finish_reason is FinishReason.LENGTH
    assert last.stats is not None
    assert (last.stats.rounds, last.stats.accepted_draft_tokens, last.stats.completion_tokens) == (2, 1, 3)


def test_a_repeated_token_of_an_aborted_request_is_not_new() -> None:
    response = Response(prompt=PROMPT)
    response.chunk(output([5, 6], 2))
    assert response.chunk(output([6], 2, finish="abort")).token_ids == ()


def test_spans_of_the_last_output_are_per_token() -> None:
    spans = [{"version": "3", "start": 0, "end": 2}, {"version": "4", "start": 2, "end": 9}]
    response = Response(prompt=PROMPT)
    response.chunk(output([5], 1))
    chunk = response.chunk(output([6, 7], 3, finish="stop", weight_versions=spans))
    assert chunk.policy_versions == (3, 4)


def test_why_a_request_is_not_drafted_for_travels_with_it() -> None:
    declined = Prompt(request_id=RequestId("r"), token_ids=(1,), speculation=Speculation.OFF, capture=False)
    custom = sglang_params(declined, MODEL)["custom_params"]
    assert (custom["tlt_speculation_off"], custom["tlt_capture"]) == (True, False)
    custom = sglang_params(PROMPT, MODEL)["custom_params"]
    assert (custom["tlt_speculation_off"], custom["tlt_capture"], custom["tlt_penalty"]) == (False, True, None)
    assert sglang_params(PROMPT, MODEL)["top_k"] == -1


def test_lengths_count_a_prefix() -> None:
    sampling = SamplingParams(max_new_tokens=9, min_new_tokens=5, presence_penalty=0.5, logprobs=LogprobKind.RAW)
    resumed = Prompt(request_id=RequestId("r"), token_ids=(1,), prefix_token_ids=(2, 3), sampling=sampling)
    params = sglang_params(resumed, MODEL)
    assert params["max_new_tokens"] == 7
    assert params["custom_params"]["tlt_prefix"] == 2
    assert params["custom_params"]["tlt_penalty"] == [0.0, 0.5, 1.0, 5]
    assert params["custom_params"]["tlt_logprobs"] == "raw"


@pytest.mark.parametrize("name", ["spec_num_correct_drafts", "spec_accept_token_num"])
def test_drafts_are_read_under_either_name_of_sglangs(name: str) -> None:
    meta = {"spec_verify_ct": 3, name: 4, "spec_cap_length": 7 / 3}
    chunk = Response(prompt=PROMPT).chunk(output([5, 6], 2, finish="stop", **meta))
    assert chunk.stats is not None
    assert (chunk.stats.rounds, chunk.stats.accepted_draft_tokens, chunk.stats.proposed_draft_tokens) == (4, 4, 7)
