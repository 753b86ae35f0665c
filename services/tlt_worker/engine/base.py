"""What a worker needs of an engine. SGLang is the one we run; the scripted fake of the tests keeps the contract."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tlt_common.domain.hidden import CapturePolicy, HiddenFrame
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, RequestId
from tlt_common.domain.rollout import Prompt, TokenChunk
from tlt_common.domain.tuner import Posterior, RoundReport


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """What was started."""

    model: str
    vocab_size: int
    context_length: int
    hidden_size: int
    max_running: int
    device: str
    """Device and kernels, in words."""


class Engine(Protocol):
    """
    An engine that decodes with drafts when it has a drafter, and captures hidden states.

    All methods belong to one event loop. After an error of `load_weights` or `load_drafter` the engine serves on
    with what it had.
    """

    async def start(self) -> EngineInfo:
        """
        Load the model. Takes from seconds to minutes.

        Raises:
            ConfigError: The model directory is missing or not a supported checkpoint.
            EngineError: The engine failed to start, or runs without our hooks.
        """
        ...

    def generate(self, prompt: Prompt) -> AsyncIterator[TokenChunk]:
        """
        Answer a prompt already checked by `Prompt.for_model`. Closing the iterator aborts the request.

        Raises:
            EngineError: The engine died.
        """
        ...

    async def abort(self, request_id: RequestId) -> bool:
        """End a request; its iterator ends with FinishReason.ABORT. False: it was not running."""
        ...

    async def check_weights(self, directory: Path) -> int:
        """
        Compare a directory of safetensors with the running model without disturbing it; return its bytes.

        Raises:
            WeightsError: Unreadable, incomplete or of another shape; names the tensor.
        """
        ...

    async def load_weights(self, directory: Path, version: PolicyVersion) -> float:
        """
        Switch to checked weights with requests in flight; later tokens carry `version`. Returns the pause in seconds.

        Raises:
            WeightsError: As `check_weights`.
        """
        ...

    async def load_drafter(self, directory: Path, version: DrafterVersion) -> float:
        """
        Swap the drafter with requests in flight. Returns the pause in seconds.

        Raises:
            WeightsError: Unreadable, of another shape, or not finite.
        """
        ...

    def frames(self) -> AsyncIterator[HiddenFrame]:
        """Captured hidden states. What nobody takes in time is dropped and counted."""
        ...

    def reports(self) -> AsyncIterator[RoundReport]:
        """What the bandit saw, about twice a second while rounds run."""
        ...

    def set_capture(self, policy: CapturePolicy) -> None:
        """Say what to capture from now on."""
        ...

    def set_posterior(self, posterior: Posterior) -> None:
        """Merge what the fleet has learned into the bandit."""
        ...

    def force_arms(self, *names: str) -> None:
        """
        Use these arms in turn, one round each; none gives the choice back to the bandit.

        Raises:
            ConfigError: The engine has no arm of that name.
        """
        ...

    async def died(self) -> str:
        """Wait until the engine has died unexpectedly; return why."""
        ...

    async def aclose(self) -> None:
        """End the engine and all its processes."""
        ...
