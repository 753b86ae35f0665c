"""The engine interface that a worker requires, implemented by SGLang and by the tests' fake."""

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
    """Description of device and kernels."""
    devices: int = 1
    """Number of devices."""
    kv_tokens: int = 0
    """KV cache size in tokens; 0 if unknown."""
    finds_stop_strings: bool = False
    """Whether it detects stop strings, which needs the model's tokenizer."""
    memory_gib: Mapping[str, float] = field(default_factory=dict)
    """GPU memory held on rank 0, by row of the plan, in GiB; empty on a CPU."""
    releasable: bool = False
    """Whether it can release its memory."""
    returns_routed_experts: bool = False
    """Whether it returns the experts that tokens were routed to."""
    drafter_bytes: int = 0
    """Bytes of the drafter's own weights on one device when the KV cache was sized."""
    memory_over_plan: Mapping[str, float] = field(default_factory=dict)
    """GPU memory held ÷ planned, by row of the plan; empty on a CPU."""


class Engine(Protocol):
    """
    An engine that decodes speculatively once it has a drafter, and captures hidden states.

    All methods belong to one event loop. After an error in `load_weights` or `load_drafter` the engine continues with
    the previous weights.
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
        Release device memory while no request is running. The content is kept if it is still needed.

        Args:
            tags: A subset of MEMORY_TAGS.

        Raises:
            EngineError: The memory was not released.
        """
        ...

    async def resume_memory(self, tags: Sequence[str]) -> None:
        """
        Resume released memory with the previous weights.

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
        """Share of the frame queue's bytes in use, 0 to 1."""
        ...

    def reports(self) -> AsyncIterator[RoundReport]:
        """Yield the bandit's measurements about twice per second while rounds run."""
        ...

    def set_capture(self, policy: CapturePolicy) -> None:
        """Set what to capture."""
        ...

    def set_posterior(self, posterior: Posterior) -> None:
        """Merge the fleet's posterior into the bandit."""
        ...

    def force_arms(self, *names: str) -> None:
        """
        Use these arms in turn, one per round. Without names, return the choice to the bandit.

        Raises:
            ConfigError: The engine has no arm with that name.
        """
        ...

    async def died(self) -> str:
        """Wait until the engine has died unexpectedly; return the reason."""
        ...

    async def aclose(self) -> None:
        """Stop the engine and all its processes."""
        ...
