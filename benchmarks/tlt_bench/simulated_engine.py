"""Stand-ins for an engine and a trainer process, with which their surroundings can be tested."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from tlt_common.domain.hidden import CapturePolicy, EncodedFrame
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, RequestId
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import FinishReason, ResponseStats, TokenChunk
from tlt_common.domain.tuner import Posterior, RoundReport
from tlt_worker.checkpoints.policy import ModelTensors, TensorHeader
from tlt_worker.engine.base import EngineInfo

TENSOR = "embed.weight"
SHAPE = (4, 8)
MAX_TOKENS = 8
"""Responses are at most this long."""
TOKENS_PER_CHUNK = 3


class SimulatedEngine:
    """Responds immediately with tokens that count up from the prompt's last one. Checks weights like a real engine."""

    def __init__(self) -> None:
        self._info = EngineInfo(
            model="simulated", vocab_size=100, context_length=64, hidden_size=4, max_running=8, device="simulated"
        )
        self._version = PolicyVersion(0)
        self._never = asyncio.Event()

    async def start(self) -> EngineInfo:
        return self._info

    async def generate(self, prompt: Prompt) -> AsyncIterator[TokenChunk]:
        before = len(prompt.prefix_token_ids)
        count = max(1, min(MAX_TOKENS, prompt.sampling.max_new_tokens or MAX_TOKENS) - before)
        last = (*prompt.token_ids, *prompt.prefix_token_ids)[-1]
        tokens = tuple((last + 1 + place) % self._info.vocab_size for place in range(count))
        for first in range(0, count, TOKENS_PER_CHUNK):
            await asyncio.sleep(0)
            yield self._chunk(
                prompt, tokens[first : first + TOKENS_PER_CHUNK], count, first + TOKENS_PER_CHUNK >= count
            )

    async def abort(self, _request_id: RequestId) -> bool:
        return False

    async def check_weights(self, directory: Path) -> int:
        return ModelTensors(headers={TENSOR: TensorHeader(dtype="F32", shape=SHAPE)}).check(directory)

    async def load_weights(self, directory: Path, version: PolicyVersion) -> float:
        await self.check_weights(directory)
        self._version = version
        return 0.0

    async def load_drafter(self, _directory: Path, _version: DrafterVersion) -> float:
        return 0.0

    async def release_memory(self, _tags: Sequence[str]) -> None:
        """Refuse to release memory."""

    async def resume_memory(self, _tags: Sequence[str]) -> None:
        """Resume nothing."""

    async def frame_batches(self) -> AsyncIterator[tuple[EncodedFrame, ...]]:
        await self._never.wait()
        yield ()

    async def reports(self) -> AsyncIterator[RoundReport]:
        await self._never.wait()
        yield RoundReport(drafter_version=DrafterVersion(0), arms=())

    @property
    def frames_used(self) -> float:
        return 0.0

    def set_capture(self, policy: CapturePolicy) -> None:
        """Capture nothing: there are no hidden states."""

    def set_posterior(self, posterior: Posterior) -> None:
        """Ignore the posterior: there is no bandit."""

    def force_arms(self, *names: str) -> None:
        """Ignore the arms: there are none."""

    async def died(self) -> str:
        await self._never.wait()
        return ""

    async def aclose(self) -> None:
        """Do nothing: there are no processes."""

    def _chunk(self, prompt: Prompt, tokens: tuple[int, ...], count: int, is_last: bool) -> TokenChunk:
        stats = ResponseStats(
            prompt_tokens=len(prompt.token_ids), completion_tokens=count, rounds=count, accepted_draft_tokens=0
        )
        return TokenChunk(
            request_id=prompt.request_id,
            token_ids=tokens,
            logprobs=(-1.0,) * len(tokens),
            policy_versions=(self._version,) * len(tokens),
            finish_reason=FinishReason.LENGTH if is_last else None,
            stats=stats if is_last else None,
        )


class KeptAlive:
    """A trainer process started by someone else. Implements the Child protocol."""

    problem = ""

    def kill(self) -> None:
        """Do nothing: no call of this benchmark times out."""

    async def suspend(self) -> None:
        """Do nothing: no memory is released."""

    def resume(self) -> None:
        """Do nothing."""

    async def run(self, *, on_exit: object) -> None:
        """Wait until cancelled."""
        del on_exit
        await asyncio.Event().wait()
