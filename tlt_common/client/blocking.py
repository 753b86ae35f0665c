"""The blocking client: runs the asyncio client in a background thread."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from os import PathLike
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from tlt_common.client.adapters import Adapter
from tlt_common.client.batches import arranged
from tlt_common.client.control import RELEASE_S
from tlt_common.client.options import ClientOptions
from tlt_common.client.readiness import known
from tlt_common.client.rollout import Client
from tlt_common.client.updates import Weights
from tlt_common.domain.batch import Sample
from tlt_common.domain.pause import PauseMode
from tlt_common.domain.prompt import SamplingParams
from tlt_common.domain.response import TokenChunk
from tlt_common.domain.server_info import ServerInfo
from tlt_common.domain.weights import UpdateResult

Result = TypeVar("Result")
_DEFAULT = SamplingParams()


class BlockingClient:
    """
    Blocking version of `Client`, with the same methods, options and errors. Callbacks run in the caller's thread.

    An exception in the caller, such as KeyboardInterrupt, aborts its requests on the server.
    """

    def __init__(self, endpoint: str | Sequence[str], **options: Unpack[ClientOptions]) -> None:
        self._log = options.get("log")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tlt-client", daemon=True)
        self._thread.start()
        try:
            self._client = self._run(_created(endpoint, **options))
        except BaseException:
            self._stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection and stop the thread. Idempotent."""
        if self._loop.is_closed():
            return
        self._run(self._client.aclose())
        self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def generate(self, prompt_ids: Sequence[int], sampling: SamplingParams = _DEFAULT, **options: Any) -> TokenChunk:
        """Generate one response. See `Client.generate`."""
        return self._run(self._client.generate(prompt_ids, sampling, **options))

    def stream(
        self, prompt_ids: Sequence[int], sampling: SamplingParams = _DEFAULT, **options: Any
    ) -> Generator[TokenChunk, None, None]:
        """Generate one response, chunk by chunk. See `Client.stream`."""
        return self._iterate(self._client.stream(prompt_ids, sampling, **options))

    def batch(
        self,
        prompts: Sequence[Sequence[int]],
        samples: int = 1,
        sampling: SamplingParams = _DEFAULT,
        *,
        on_progress: Callable[[Sample], None] | None = None,
        **options: Any,
    ) -> list[list[TokenChunk]]:
        """Generate `samples` responses for each prompt and return them in order. See `Client.batch`."""
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
        """Generate responses to many prompts and yield each sample when it finishes. See `Client.stream_batch`."""
        return self._iterate(self._client.stream_batch(prompts, samples, sampling, **options))

    def publish_weights(
        self, version: int | None, weights: Weights, *, base: int | None = None, timeout_s: float | None = None
    ) -> UpdateResult:
        """Install weights on all workers, or on none if one refuses them. See `Client.publish_weights`."""
        result = self._run(self._client._published(version, weights, base=base, timeout_s=timeout_s))  # noqa: SLF001
        if self._log:  # here, since MLflow's runs belong to a thread
            self._log.step(self._run(known(self._client._gateways)), result.version)  # noqa: SLF001
        return result

    def publish_adapter(
        self,
        version: int | None,
        adapter: Adapter,
        *,
        base: str | PathLike[str] | None = None,
        timeout_s: float | None = None,
    ) -> UpdateResult:
        """Install a LoRA adapter on all workers, or on none if one refuses it. See `Client.publish_adapter`."""
        result = self._run(self._client._adapted(version, adapter, base=base, timeout_s=timeout_s))  # noqa: SLF001
        if self._log:
            self._log.step(self._run(known(self._client._gateways)), result.version)  # noqa: SLF001
        return result

    def announce(self, prompts: Sequence[Sequence[int]], samples: int = 1, sampling: SamplingParams = _DEFAULT) -> int:
        """Announce the prompts of the next step. See `Client.announce`."""
        return self._run(self._client.announce(prompts, samples, sampling))

    def abort(self, *request_ids: str, everything: bool = False) -> int:
        """Abort requests by id, or all requests. See `Client.abort`."""
        return self._run(self._client.abort(*request_ids, everything=everything))

    def pause(self, mode: PauseMode | str = PauseMode.KEEP) -> None:
        """Pause generation at all gateways. See `Client.pause`."""
        self._run(self._client.pause(mode))

    def proceed(self) -> None:
        """End a pause. See `Client.proceed`."""
        self._run(self._client.proceed())

    def release(self, tags: Iterable[str] = (), *, limit_s: float | None = RELEASE_S) -> int:
        """Release the memory of all workers' devices to a trainer that shares them. See `Client.release`."""
        return self._run(self._client.release(tags, limit_s=limit_s))

    def resume(self, tags: Iterable[str] = ()) -> int:
        """Take released memory back. See `Client.resume`."""
        return self._run(self._client.resume(tags))

    @contextmanager
    def released(self, tags: Iterable[str] = (), *, limit_s: float = RELEASE_S) -> Iterator[None]:
        """
        Release the devices inside the block, and resume at its end. See `Client.released`.

        Renewals come from the client's own thread, whatever the block does.
        """
        self.release(tags, limit_s=limit_s)
        renewals = asyncio.run_coroutine_threadsafe(self._client._memory.renew(limit_s), self._loop)  # noqa: SLF001
        try:
            yield
        finally:
            renewals.cancel()
            self.resume()

    def info(self) -> ServerInfo:
        """Return the state of the rollout endpoint. See `Client.info`."""
        return self._run(self._client.info())

    def wait_ready(self, timeout_s: float, *, workers: int = 1) -> ServerInfo:
        """Wait until the gateway is reachable and `workers` workers accept requests. See `Client.wait_ready`."""
        return self._run(self._client.wait_ready(timeout_s, workers=workers))

    def submit(self, call: Callable[[Client], Coroutine[Any, Any, Result]]) -> Future[Result]:
        """
        Start a call of the asyncio client in the background thread, for callers that must not block or that have event
        loops of their own: `await asyncio.wrap_future(client.submit(lambda inner: inner.generate([3, 5])))`.

        Cancelling the future aborts the call's requests on the server.
        """
        return asyncio.run_coroutine_threadsafe(call(self._client), self._loop)

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _iterate(self, items: AsyncGenerator[Result, None]) -> Generator[Result, None, None]:
        try:
            while (item := self._run(_next(items))) is not None:
                yield item
        finally:
            self._run(items.aclose())


async def _created(endpoint: str | Sequence[str], **options: Unpack[ClientOptions]) -> Client:
    """Create the client in the running event loop, to which a channel is bound."""
    return Client(endpoint, **options)


async def _next(items: AsyncGenerator[Result, None]) -> Result | None:
    return await anext(items, None)
