"""Outputs as CUDA graphs return them: in memory that all passes share."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from tlt_bench.gpu_loop.buffers import forward_into_buffers


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What SGLang's logits processor returns, as far as it is read here."""

    hidden_states: Tensor | None = None
    last_hidden_states: Tensor | None = None
    next_token_logits: Tensor | None = None


def run(output: Output, *, drafter: bool = False, step: bool = False) -> Output:
    runner = SimpleNamespace(is_draft_worker=drafter)
    forward_batch = SimpleNamespace(forward_mode=SimpleNamespace(is_decode=lambda: step))
    result: Any = SimpleNamespace(logits_output=output)
    found: Output = forward_into_buffers(lambda *_: result, runner, forward_batch).logits_output
    return found


def test_a_pass_returns_what_it_made() -> None:
    made = Output(hidden_states=torch.rand(3, 4, dtype=torch.bfloat16), next_token_logits=torch.rand(3, 7))
    found = run(made)
    assert found.last_hidden_states is None
    assert found.hidden_states is not made.hidden_states
    assert torch.equal(found.hidden_states, made.hidden_states)  # type: ignore[arg-type] # both are there
    assert torch.equal(found.next_token_logits, made.next_token_logits)  # type: ignore[arg-type] # same


@pytest.mark.parametrize("step", [True, False])
@pytest.mark.parametrize("drafter", [True, False])
@pytest.mark.parametrize("rows", [1, 500])
def test_the_next_pass_of_any_model_overwrites_it(drafter: bool, step: bool, rows: int) -> None:
    verified = run(Output(hidden_states=torch.rand(3, 4), last_hidden_states=torch.rand(3, 4)))
    run(Output(next_token_logits=torch.full((rows, 2), 2.0)), drafter=drafter, step=step)
    for one in (verified.hidden_states, verified.last_hidden_states):
        assert one is not None
        assert not ((one >= 0) & (one < 1)).any(), "what is there now is not a number, or is of the next pass"


def test_the_steps_of_a_drafter_are_one_graph() -> None:
    first = run(Output(hidden_states=torch.ones(2, 3)), drafter=True, step=True)
    run(Output(hidden_states=torch.zeros(2, 3)), drafter=True, step=True)
    assert torch.equal(first.hidden_states, torch.ones(2, 3))  # type: ignore[arg-type] # it is there
