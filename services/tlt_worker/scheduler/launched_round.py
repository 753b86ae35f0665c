"""State of a round from launch to processing. Used inside SGLang's processes only."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tlt_common.domain.hidden import SCALE_BYTES, CapturePolicy
from tlt_common.domain.ids import PolicyVersion
from tlt_worker.scheduler.arms.choice import ArmChoice
from tlt_worker.scheduler.captured_rows import Chosen, decoded_rows, prompt_rows
from tlt_worker.scheduler.outputs import Outputs

_ATTRIBUTE = "tlt_round"


SCALED_BITS = 8
"""Value of `CapturePolicy.state_bits` that asks for these."""
FLOAT8 = torch.float8_e4m3fn
FLOAT8_MAX = torch.finfo(FLOAT8).max
SMALLEST = 1e-30
"""Smallest scale, so that it is a normal number; larger in float16, in which its reciprocal has to be finite."""


@dataclass(slots=True, kw_only=True)
class LaunchedRound:
    """
    The data of a round that its processing needs in addition to SGLang's result.

    With overlapped scheduling (GPU) the next round has been launched by then: arm, capture policy and weights may have
    changed, so everything is fixed at launch. States are copied right after the target's pass: all CUDA graphs share
    one memory pool, so that the drafter's next pass may already overwrite them.
    """

    choice: ArmChoice | None
    """The choice of the arm; None if the round did not decode."""
    version: PolicyVersion
    prompt_tokens: int = 0
    """Number of prompt tokens that it prefills, if it does not decode."""
    launched_s: float = 0.0
    """Launch time on the switch's clock."""
    rows: Sequence[Chosen] = ()
    states: Tensor | None = None
    """
    [C, K] states of `rows`, or [C, bytes] if they are scaled; on the device, and in host memory after `to_host`. None
    if nothing is captured.
    """

    def take(self, outputs: Outputs, batch: Any, policy: CapturePolicy) -> None:
        """Copy the states of the requests to capture."""
        # Not by the batch's forward mode: a round that verified drafts has left it as that of an extension.
        if self.choice is None:
            self.rows = prompt_rows(batch, policy)
        else:
            depth = min(outputs.nodes, self.choice.arm.steps + 1)
            self.rows = decoded_rows(batch.reqs, outputs.nodes, depth, policy)
        if self.rows:
            states_CK = outputs.copied(self.rows)
            self.states = scaled_rows(states_CK) if policy.state_bits == SCALED_BITS else states_CK

    def attach(self, result: Any) -> None:
        """Attach the round to SGLang's result, which reaches the processing."""
        setattr(result, _ATTRIBUTE, self)


def round_of(result: Any) -> LaunchedRound | None:
    """Return the round attached to a result."""
    found: LaunchedRound | None = getattr(result, _ATTRIBUTE, None)
    return found


TakeStates = Callable[[Any], None]
"""Copies what a result of SGLang's has that its round captures."""

_taking: ContextVar[TakeStates | None] = ContextVar("tlt_taking", default=None)
"""Of the round being launched; None outside."""


@contextmanager
def taking(take: TakeStates) -> Iterator[None]:
    """Make `take_states` call this for the duration of the context."""
    token = _taking.set(take)
    try:
        yield
    finally:
        _taking.reset(token)


def take_states(result: Any) -> None:
    """Copy the states of the round being launched from the target's fresh result."""
    if (take := _taking.get()) is not None:
        take(result)


def take_before_the_drafter(original: Callable[..., Any], self: Any, batch: Any, *args: Any, **kw: Any) -> Any:
    """Wrap `TpModelWorker.forward_batch_generation`, the target's pass. A verifying pass has no batch."""
    result = original(self, batch, *args, **kw)
    if batch is not None:
        take_states(result)
    return result


def copy_with_states(original: Callable[..., Any], self: Any, *args: Any, **kw: Any) -> Any:
    """Wrap `GenerationBatchResult.copy_to_cpu`: its stream also copies the states, and its event covers them."""
    from sglang.srt.utils.common import async_d2h

    launched = round_of(self)
    if launched is not None and launched.states is not None:
        launched.states = async_d2h(launched.states)
    return original(self, *args, **kw)


def scaled_rows(states_CH: Tensor) -> Tensor:
    """
    Return [C, H + SCALE_BYTES] bytes: each state's elements, then its scale. Overwrites `states_CH`.

    Does not wait for the device. A state with a non-finite element gets a non-finite scale or elements, and trainers
    refuse its frame.
    """
    rows, size = states_CH.shape
    # In place and without abs(): a copy of a long prompt's states would be hundreds of MiB.
    largest_C = torch.maximum(states_CH.amax(-1), states_CH.amin(-1).neg())
    smallest = max(SMALLEST, 2 / torch.finfo(states_CH.dtype).max)
    scales_C1 = (largest_C.float() / FLOAT8_MAX).clamp_min(smallest).unsqueeze(1)
    # The reciprocal may be rounded up in bfloat16; up to 464 becomes 448, the largest number.
    states_CH.mul_((1.0 / scales_C1).to(states_CH.dtype))
    rows_CB = torch.empty(rows, size + SCALE_BYTES, dtype=torch.uint8, device=states_CH.device)
    rows_CB[:, :size].view(FLOAT8).copy_(states_CH)
    rows_CB[:, size:].copy_(scales_C1.view(torch.uint8))
    return rows_CB
