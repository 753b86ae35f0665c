"""Requests are checked when they arrive in the scheduler."""

from array import array
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tlt_common.errors import InvalidRequestError
from tlt_worker.scheduler.failures.intake import check

VOCABULARY = 8
ENDS = (7,)


def arrived(ids: list[int], *, seed: int | None = None, stops: list[int] | None = None, **custom: Any) -> Any:
    params = SimpleNamespace(sampling_seed=seed, stop_token_ids=stops, custom_params=custom)
    return SimpleNamespace(input_ids=array("q", ids), sampling_params=params)


def test_a_sound_request_passes() -> None:
    check(arrived([1, 2], seed=3, stops=[5], tlt_penalty=[0.5, 0.0, 1.0, 2], tlt_prefix=1), VOCABULARY, ENDS)


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (arrived([1, VOCABULARY]), "prompt.token_ids"),
        (arrived([-1]), "prompt.token_ids"),
        (arrived([1], stops=[10**9], tlt_penalty=[0.0, 0.0, 1.0, 1]), "sampling.stop_token_ids"),
        (arrived([1], tlt_prefix=1), "prompt.prefix_token_ids"),
        (arrived([1], tlt_prefix=-1), "prompt.prefix_token_ids"),
        (arrived([1], tlt_penalty=[float("nan"), 0.0, 1.0, 0]), "sampling.frequency_penalty"),
        (arrived([1], tlt_penalty=[0.0, 0.0, 0.0, 0]), "sampling.repetition_penalty"),
    ],
)
def test_what_would_end_the_process_on_a_gpu_is_refused(request_: Any, field: str) -> None:
    with pytest.raises(InvalidRequestError, match="accepted") as raised:
        check(request_, VOCABULARY, ENDS)
    assert raised.value.field == field


def test_a_minimum_length_leaves_a_token_to_draw() -> None:
    suppressing = arrived([1], stops=list(range(VOCABULARY - 1)), tlt_penalty=[0.0, 0.0, 1.0, 1])
    with pytest.raises(InvalidRequestError, match="has 8 entries; the maximum is 7"):
        check(suppressing, VOCABULARY, ENDS)
    check(arrived([1], stops=list(range(VOCABULARY - 1))), VOCABULARY, ENDS)


def test_a_tokenizer_that_cannot_be_read_refuses_stop_strings(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(InvalidRequestError, match=r"sampling\.stop: .*tokenizer.json cannot be loaded") as raised:
        check(arrived([1], tlt_stop=[["x"], 0, str(tmp_path / "tokenizer.json")]), VOCABULARY, ENDS)
    assert raised.value.field == "sampling.stop"


@pytest.mark.parametrize(
    ("unreadable", "message"),
    [
        (arrived([1], tlt_logprobs="none"), "'none' is not a valid LogprobKind"),
        (arrived([1], tlt_penalty=[1.0]), "not enough values to unpack"),
        (arrived([1], tlt_prefix="x"), "invalid literal for int"),
        (arrived([1], seed=2**64), "Overflow"),
    ],
)
def test_parameters_that_cannot_be_read_fail_at_the_arrival(unreadable: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check(unreadable, VOCABULARY, ENDS)
