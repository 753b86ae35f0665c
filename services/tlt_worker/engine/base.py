"""The engine interface a worker requires. SGLang and the scripted fake of the tests implement it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tlt_common.domain.hidden import CapturePolicy, EncodedFrame
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, RequestId
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import TokenChunk
from tlt_common.domain.tuner import Posterior, RoundReport


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """Properties of a started engine."""

    model: str
    vocab_size: int
    context_length: int
    hidden_size: int
    max_running: int
    device: str
    """Device and kernels, as text."""
    devices: int = 1
    """How many it has."""
    kv_tokens: int = 0
    """Tokens that its KV cache holds; 0: unknown."""
    finds_stop_strings: bool = False
    """Whether it has the model's tokenizer."""
    memory_gib: Mapping[str, float] = field(default_factory=dict)
    """GPU memory held on rank 0, by row of the plan, in GiB; empty on a CPU."""
    releasable: bool = False
    """Whether it can release its memory."""
    returns_routed_experts: bool = False
    """Whether it returns the experts that tokens were routed to."""
    drafter_bytes: int = 0
    """Of the drafter's own weights, on one device, when the KV cache was sized."""
    memory_over_plan: Mapping[str, float] = field(default_factory=dict)
    """GPU memory held ÷ planned, by row of the plan; empty on a CPU."""


class Engine(Protocol):
    """
    An engine that decodes speculatively when it has a drafter, and captures hidden states.

    All methods belong to one event loop. After an error in `load_weights` or `load_drafter` the engine continues with
    what it had loaded before.
    """

    async def start(self) -> EngineInfo:
        """
        Load the model, which takes from seconds to minutes.

        Raises:
            ConfigError: The model directory is missing or not a supported checkpoint.
            EngineError: The engine failed to start, or runs without our hooks.
        """
        ...

    def generate(self, prompt: Prompt) -> AsyncIterator[TokenChunk]:
        """
        Respond to a prompt already checked by `Prompt.for_model`. Closing the iterator aborts the request.

        Raises:
            InvalidRequestError: The engine refused the request, for example because its KV cache is too small for it.
            OverloadedError: The engine has no room for the request now.
            RequestFailedError: The engine failed on this request; others continue.
            EngineError: The engine died while it ran the request.
            DrainingError: The engine had ended before.
        """
        ...

    async def abort(self, request_id: RequestId) -> bool:
        """Abort a request; its iterator ends with FinishReason.ABORT. Return False if it was not running."""
        ...

    async def check_weights(self, directory: Path) -> int:
        """
        Compare a directory of safetensors with the running model without disturbing it; return its size in bytes.

        Raises:
            WeightsError: The weights are unreadable, incomplete or of another shape; the message names the tensor.
        """
        ...

    async def load_weights(self, directory: Path, version: PolicyVersion) -> float:
        """
        Switch to checked weights with requests in flight; return the pause in seconds. Later tokens carry `version`.

        Raises:
            WeightsError: See `check_weights`. The served weights stay, or were loaded again.
            EngineError: The served weights could not be loaded again; the engine died.
        """
        ...

    async def load_drafter(self, directory: Path, version: DrafterVersion) -> float:
        """
        Swap the drafter with requests in flight; return the pause in seconds.

        Raises:
            WeightsError: The drafter is unreadable, of another shape, or not finite.
        """
        ...

    async def release_memory(self, tags: Sequence[str]) -> None:
        """
        Give memory of the device back; no request may run. What was in it is kept, or not needed any more.

        Args:
            tags: Of MEMORY_TAGS.

        Raises:
            EngineError: It was not released.
        """
        ...

    async def resume_memory(self, tags: Sequence[str]) -> None:
        """
        Take released memory back, with the weights that were in it.

        Raises:
            EngineError: The device has no room for it.
        """
        ...

    def frame_batches(self) -> AsyncIterator[tuple[EncodedFrame, ...]]:
        """
        Yield captured hidden states, all queued frames at a time.

        Frames wait in one queue, bounded in bytes; those of a batch count until the next batch is requested. A new
        frame that does not fit is dropped and counted.
        """
        ...

    @property
    def frames_used(self) -> float:
        """Share of that queue's bytes in use, 0 to 1."""
        ...

    def reports(self) -> AsyncIterator[RoundReport]:
        """Yield the bandit's measurements, about twice per second while rounds run."""
        ...

    def set_capture(self, policy: CapturePolicy) -> None:
        """Set what to capture."""
        ...

    def set_posterior(self, posterior: Posterior) -> None:
        """Merge the fleet's posterior into the bandit."""
        ...

    def force_arms(self, *names: str) -> None:
        """
        Use these arms in turn, one per round; without names, let the bandit choose again.

        Raises:
            ConfigError: The engine has no arm of that name.
        """
        ...

    async def died(self) -> str:
        """Wait until the engine has died unexpectedly; return the reason."""
        ...

    async def aclose(self) -> None:
        """Stop the engine and all its processes."""
        ...
