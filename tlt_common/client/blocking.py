"""The blocking client: the asyncio one, in a thread of its own."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import closing
from os import PathLike
from types import TracebackType
from typing import Any, Self, TypeVar

from tlt_common.client.rollout import Client, arranged
from tlt_common.domain.fleet import ServerInfo
from tlt_common.domain.rollout import Sample, SamplingParams, TokenChunk
from tlt_common.domain.weights import UpdateResult
from tlt_common.rpc.endpoint import Secret

Result = TypeVar("Result")
_DEFAULT = SamplingParams()


class BlockingClient:
    """
    Methods, options and errors are those of `Client`; callbacks run in the caller's thread.

    An exception in the caller, such as Ctrl-C, aborts what runs on the server.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        token: Secret | None = None,
        ca: str | PathLike[str] | None = None,
        tls: bool | None = None,
        server_name: str = "",
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tlt-client", daemon=True)
        self._thread.start()
        try:
            self._client = self._do(_made(endpoint, token=token, ca=ca, tls=tls, server_name=server_name))
        except BaseException:
            self._end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection and end the thread. Repeating it does nothing."""
        if self._loop.is_closed():
            return
        self._do(self._client.aclose())
        self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def generate(self, prompt_ids: Sequence[int], sampling: SamplingParams = _DEFAULT, **options: Any) -> TokenChunk:
        """Answer one prompt in one piece."""
        return self._do(self._client.generate(prompt_ids, sampling, **options))

    def stream(
        self, prompt_ids: Sequence[int], sampling: SamplingParams = _DEFAULT, **options: Any
    ) -> Generator[TokenChunk, None, None]:
        """Answer one prompt, chunk by chunk."""
        return self._each(self._client.stream(prompt_ids, sampling, **options))

    def batch(
        self,
        prompts: Sequence[Sequence[int]],
        samples: int = 1,
        sampling: SamplingParams = _DEFAULT,
        *,
        on_progress: Callable[[Sample], None] | None = None,
        **options: Any,
    ) -> list[list[TokenChunk]]:
        """Answer many prompts; returns `samples` responses for each, in order."""
        responses: dict[tuple[int, int], TokenChunk] = {}
        with closing(self.stream_batch(prompts, samples, sampling, **options)) as finished:
            for sample in finished:
                responses[sample.prompt_index, sample.sample_index] = sample.response
                if on_progress:
                    on_progress(sample)
        return arranged(responses, len(prompts), samples)

    def stream_batch(
        self,
        prompts: Sequence[Sequence[int]],
        samples: int = 1,
        sampling: SamplingParams = _DEFAULT,
        **options: Any,
    ) -> Generator[Sample, None, None]:
        """Answer many prompts; samples come as they finish."""
        return self._each(self._client.stream_batch(prompts, samples, sampling, **options))

    def publish_weights(
        self, version: int, weights: str | PathLike[str] | Mapping[str, Any], *, timeout_s: float | None = None
    ) -> UpdateResult:
        """Install weights on all workers, all or none."""
        return self._do(self._client.publish_weights(version, weights, timeout_s=timeout_s))

    def abort(self, *request_ids: str, everything: bool = False) -> int:
        """End requests by id, or all."""
        return self._do(self._client.abort(*request_ids, everything=everything))

    def info(self) -> ServerInfo:
        """What is served."""
        return self._do(self._client.info())

    def wait_ready(self, timeout_s: float, *, workers: int = 1) -> ServerInfo:
        """Wait until the gateway is there and so many workers take requests."""
        return self._do(self._client.wait_ready(timeout_s, workers=workers))

    def _do(self, work: Coroutine[Any, Any, Result]) -> Result:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _each(self, items: AsyncGenerator[Result, None]) -> Generator[Result, None, None]:
        try:
            while (item := self._do(_next(items))) is not None:
                yield item
        finally:
            self._do(items.aclose())


async def _made(endpoint: str, **options: Any) -> Client:
    """A channel belongs to the loop it is made in."""
    return Client(endpoint, **options)


async def _next(items: AsyncGenerator[Result, None]) -> Result | None:
    return await anext(items, None)
