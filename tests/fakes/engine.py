"""A scripted engine that implements the Engine protocol. It uses the loop's time, which may be virtual."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from tests.fakes.scripted_chunk import scripted_logprobs
from tlt_common.codec import encode
from tlt_common.domain.arm import ArmWindow
from tlt_common.domain.hidden import CapturePolicy, EncodedFrame, FrameHeader, prompt_hash
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, RequestId
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import FinishReason, ResponseStats, TokenChunk
from tlt_common.domain.tuner import Posterior, RoundReport
from tlt_common.errors import EngineError, WeightsError
from tlt_worker.engine.base import EngineInfo

HIDDEN_SIZE = 4


def counting(prompt: Prompt) -> tuple[int, ...]:
    """Return the default response: up to 8 tokens that count up from the prompt's last one."""
    length = min(8, prompt.sampling.max_new_tokens or 8) - len(prompt.prefix_token_ids)
    last = (*prompt.token_ids, *prompt.prefix_token_ids)[-1]
    return tuple((last + i + 1) % 100 for i in range(length))


class FakeEngine:
    """
    Decodes one scripted token per request every `token_s`.

    Attributes:
        bad_directories: Loading or checking these raises WeightsError.
        check: Checks a directory as a real engine does, and returns its size.
        refused: Directories refused by that, oldest first.
        gate: Loads wait for it; initially set.
        loading: Set when the first load begins.
        captured, posteriors, arms: Values set, oldest first.
        aborted: Requests ended by `abort`.
        released: Memory released now; `release_error` and `resume_error` are raised instead, while set.
    """

    def __init__(
        self,
        *,
        answer: Callable[[Prompt], tuple[int, ...]] = counting,
        token_s: float = 0.01,
        vocab_size: int = 100,
        context_length: int = 64,
    ) -> None:
        self.info = EngineInfo(
            model="fake",
            vocab_size=vocab_size,
            context_length=context_length,
            hidden_size=HIDDEN_SIZE,
            max_running=4,
            device="scripted",
        )
        self._answer = answer
        self._token_s = token_s
        self._running: dict[RequestId, asyncio.Event] = {}
        self.released: set[str] = set()
        self.release_error: EngineError | None = None
        self.resume_error: EngineError | None = None
        self._death: asyncio.Future[str] | None = None
        self._frames: asyncio.Queue[EncodedFrame] = asyncio.Queue()
        self._reports: asyncio.Queue[RoundReport] = asyncio.Queue()
        self.policy_version = PolicyVersion(0)
        self.drafter_version = DrafterVersion(0)
        self.loaded: list[Path] = []
        self.bad_directories: set[Path] = set()
        self.check: Callable[[Path], int] | None = None
        self.refused: list[Path] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.loading = asyncio.Event()
        self.captured: list[CapturePolicy] = []
        self.used = 0.0
        self.posteriors: list[Posterior] = []
        self.arms: list[tuple[str, ...]] = []
        self.aborted: list[RequestId] = []
        self.closed = False

    async def start(self) -> EngineInfo:
        self._death = asyncio.get_running_loop().create_future()
        return self.info

    async def generate(self, prompt: Prompt) -> AsyncIterator[TokenChunk]:
        aborted = self._running[prompt.request_id] = asyncio.Event()
        try:
            tokens = self._answer(prompt)
            for position, token in enumerate(tokens, start=1):
                if await self._ended(aborted):
                    yield self._chunk(prompt, (), FinishReason.ABORT, position - 1)
                    return
                last = position == len(tokens)
                yield self._chunk(prompt, (token,), FinishReason.LENGTH if last else None, position)
            self._capture(prompt, tokens)
        finally:
            self._running.pop(prompt.request_id, None)

    async def abort(self, request_id: RequestId) -> bool:
        if request_id not in self._running:
            return False
        self.aborted.append(request_id)
        self._running[request_id].set()
        return True

    async def check_weights(self, directory: Path) -> int:
        if self.check is not None:
            return self.check(directory)
        files = list(directory.glob("*.safetensors"))  # noqa: ASYNC240 - a fake's tiny directory
        if directory in self.bad_directories or not files:
            self.refused.append(directory)
            raise WeightsError(f"{directory}: tensor 'lm_head' is of another shape", field="tensor")
        return sum(path.stat().st_size for path in files)

    async def load_weights(self, directory: Path, version: PolicyVersion) -> float:
        await self._load(directory)
        self.policy_version = version
        return 0.002

    async def load_drafter(self, directory: Path, version: DrafterVersion) -> float:
        await self._load(directory)
        self.drafter_version = version
        return 0.001

    async def release_memory(self, tags: Sequence[str]) -> None:
        assert not self._running, "SGLang's scheduler ends if requests run"
        if self.release_error is not None:
            raise self.release_error
        self.released |= set(tags)

    async def resume_memory(self, tags: Sequence[str]) -> None:
        assert set(tags) <= self.released, "SGLang's scheduler ends if that was not released"
        if self.resume_error is not None:
            raise self.resume_error
        self.released -= set(tags)

    async def frame_batches(self) -> AsyncIterator[tuple[EncodedFrame, ...]]:
        while True:
            yield (await self._frames.get(),)

    async def reports(self) -> AsyncIterator[RoundReport]:
        while True:
            yield await self._reports.get()

    @property
    def frames_used(self) -> float:
        return self.used

    def set_capture(self, policy: CapturePolicy) -> None:
        self.captured.append(policy)

    def set_posterior(self, posterior: Posterior) -> None:
        self.posteriors.append(posterior)

    def force_arms(self, *names: str) -> None:
        self.arms.append(names)

    async def died(self) -> str:
        assert self._death is not None, "start() comes first"
        return await asyncio.shield(self._death)

    async def aclose(self) -> None:
        self.closed = True

    def die(self, why: str) -> None:
        """Fail like a killed engine process: running requests fail with it."""
        assert self._death is not None, "start() comes first"
        self._death.set_result(why)

    def report(self, *arms: ArmWindow, switches: int = 0) -> None:
        """Make the bandit report these windows."""
        self._reports.put_nowait(RoundReport(drafter_version=self.drafter_version, arms=arms, switches=switches))

    @property
    def running(self) -> frozenset[RequestId]:
        """Return the number of requests in the engine."""
        return frozenset(self._running)

    async def _ended(self, aborted: asyncio.Event) -> bool:
        """Whether the request was aborted while its next token was computed."""
        try:
            async with asyncio.timeout(self._token_s):
                await aborted.wait()
        except TimeoutError:
            if self._death is not None and self._death.done():
                raise EngineError(f"the engine died: {self._death.result()}") from None
            return False
        return True

    async def _load(self, directory: Path) -> None:
        self.loading.set()
        await self.gate.wait()
        await self.check_weights(directory)
        self.loaded.append(directory)

    def _chunk(self, prompt: Prompt, tokens: tuple[int, ...], finish: FinishReason | None, produced: int) -> TokenChunk:
        stats = ResponseStats(
            prompt_tokens=len(prompt.token_ids), completion_tokens=produced, rounds=produced, accepted_draft_tokens=0
        )
        return TokenChunk(
            request_id=prompt.request_id,
            token_ids=tokens,
            logprobs=(-1.0,) * len(tokens),
            policy_versions=(self.policy_version,) * len(tokens),
            finish_reason=finish,
            stats=stats if finish else None,
            prompt_logprobs=scripted_logprobs(prompt) if tokens and produced == 1 else None,
        )

    def _capture(self, prompt: Prompt, tokens: tuple[int, ...]) -> None:
        if not (prompt.capture and self.captured and self.captured[-1].enabled):
            return
        everything = prompt.token_ids + tokens
        header = FrameHeader(
            request_id=prompt.request_id,
            policy_version=self.policy_version,
            prompt_hash=prompt_hash(prompt.token_ids),
            start=0,
            token_count=len(everything) - 1,
            hidden_size=HIDDEN_SIZE,
            dtype="BF16",
            prompt_tokens=len(prompt.token_ids),
            response_tokens=len(tokens),
            finished=True,
        )
        self._frames.put_nowait(encode(header, everything, [bytes(header.hidden_bytes)]))
