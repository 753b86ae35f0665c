"""The asyncio client."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike, fspath
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc

from tlt_common.client.tensors import stream as tensor_stream
from tlt_common.domain.fleet import ServerInfo
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.domain.rollout import Prompt, Sample, SamplingParams, Speculation, TokenChunk
from tlt_common.domain.weights import TensorChunk, UpdateResult, WeightsUpdate
from tlt_common.errors import UnavailableError
from tlt_common.rpc.endpoint import Secret, connect_endpoint
from tlt_common.rpc.errors import translated
from tlt_common.wire import rollout as wire

RETRY_PAUSES_S = (0.2, 0.4, 0.8, 1.6)
"""3 s in all: longer than a gateway that restarts is away from its port."""
CALL_S = 10.0
"""Deadline of calls that only ask."""
READY_PAUSE_S = 0.1

Result = TypeVar("Result")
_DEFAULT = SamplingParams()


class Client:
    """
    Talks to a gateway: `async with Client("localhost:7700") as client`. Belongs to the event loop it is used in.

    All methods raise TltErrors. Only calls that are harmless to repeat are retried, and only when the gateway is not
    there; a response is not among them: one that is lost in mid-way was long, and drawing it again would favor short
    ones.
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
        """
        Name the gateway. Nothing is sent before the first call.

        Args:
            endpoint: host:port.
            token: Shown with every call: the secret, or a `Path` to the file it is in, read anew when it changes.
            ca: PEM file of the authorities whose certificates are believed, read anew when it changes; None: the ones
                gRPC comes with.
            tls: Whether to encrypt; None: if `ca` is given. False says that somebody else does, such as a service
                mesh: without it a token is sent in the clear to this machine only.
            server_name: Name that must be in the server's certificate; empty: the host of `endpoint`. Behind a tunnel
                or a port-forward, "gateway.tlt.internal".

        Raises:
            ConfigError: The options contradict each other, or a file cannot be used.
        """
        self.endpoint = endpoint
        self._channel = connect_endpoint(endpoint, token=token, ca=ca, tls=tls, server_name=server_name)
        self._stub = wire.Stub(self._channel)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection; what still runs is aborted."""
        await self._channel.close()

    async def generate(
        self, prompt_ids: Sequence[int], sampling: SamplingParams = _DEFAULT, **options: Any
    ) -> TokenChunk:
        """Answer one prompt in one piece. Options and errors as `stream`; cancelling aborts the request."""
        whole: TokenChunk | None = None
        async for chunk in self.stream(prompt_ids, sampling, **options):
            whole = whole.followed_by(chunk) if whole else chunk
        if whole is None:
            raise UnavailableError("the gateway ended the stream without a response")
        return whole

    async def stream(
        self,
        prompt_ids: Sequence[int],
        sampling: SamplingParams = _DEFAULT,
        *,
        request_id: str = "",
        speculation: Speculation = Speculation.AUTO,
        capture: bool = True,
        policy_version: int | None = None,
        prefix_ids: Sequence[int] = (),
        timeout_s: float | None = None,
    ) -> AsyncGenerator[TokenChunk, None]:
        """
        Answer one prompt, chunk by chunk. Closing the iterator aborts the request.

        Args:
            prompt_ids: Tokens of the model's vocabulary.
            sampling: Temperature 1 and nothing else by default.
            request_id: For `abort`; empty lets the gateway make one.
            speculation: Off for comparisons; the distribution is the same.
            capture: Whether hidden states may be used for drafter training.
            policy_version: Answer only with this version; None takes what is served.
            prefix_ids: Tokens of the response made before. It goes on behind them, as exactly as if it had not been
                interrupted: lengths and penalties count them, a seed goes on where it was. Only new tokens come back.
            timeout_s: Deadline of the whole response; None has none.
        """
        prompt = _prompt(prompt_ids, sampling, request_id, speculation, capture, policy_version)
        prompt = replace(prompt, prefix_token_ids=tuple(prefix_ids))
        request = wire.pb.GenerateRequest(prompt=wire.prompt_to_pb(prompt))
        call = self._stub.Generate(request, timeout=timeout_s)
        try:
            with translated():
                async for message in call:
                    yield wire.chunk_from_pb(message.chunk)
        finally:
            call.cancel()

    async def batch(
        self,
        prompts: Sequence[Sequence[int]],
        samples: int = 1,
        sampling: SamplingParams = _DEFAULT,
        *,
        on_progress: Callable[[Sample], None] | None = None,
        **options: Any,
    ) -> list[list[TokenChunk]]:
        """
        Answer many prompts; returns `samples` responses for each, in order.

        `on_progress` is called with each sample as it finishes, which carries counts and time. Options as
        `stream_batch`.
        """
        responses: dict[tuple[int, int], TokenChunk] = {}
        async for sample in self.stream_batch(prompts, samples, sampling, **options):
            responses[sample.prompt_index, sample.sample_index] = sample.response
            if on_progress:
                on_progress(sample)
        return arranged(responses, len(prompts), samples)

    async def stream_batch(
        self,
        prompts: Sequence[Sequence[int]],
        samples: int = 1,
        sampling: SamplingParams = _DEFAULT,
        *,
        request_ids: Sequence[str] = (),
        speculation: Speculation = Speculation.AUTO,
        capture: bool = True,
        policy_version: int | None = None,
        timeout_s: float | None = None,
    ) -> AsyncGenerator[Sample, None]:
        """Answer many prompts; samples come as they finish. Closing the iterator aborts all. Options as `stream`."""
        names = request_ids or [""] * len(prompts)
        asked = [
            _prompt(ids, sampling, name, speculation, capture, policy_version)
            for ids, name in zip(prompts, names, strict=True)
        ]
        call = self._stub.GenerateBatch(wire.batch_to_pb(asked, samples), timeout=timeout_s)
        try:
            with translated():
                async for message in call:
                    yield wire.sample_from_pb(message)
        finally:
            call.cancel()

    async def publish_weights(
        self, version: int, weights: str | PathLike[str] | Mapping[str, Any], *, timeout_s: float | None = None
    ) -> UpdateResult:
        """
        Install weights on all workers, all or none; requests in flight go on with them.

        Args:
            version: Above the one served. The step of the trainer, usually.
            weights: A directory of safetensors that every worker can read and that stays as it is until the next
                update, by path or URL (file://, s3://, ...); or a state dict of torch tensors or numpy arrays, which is
                streamed.
            timeout_s: Deadline.

        Raises:
            InvalidRequestError: The version is not above the one served.
            WeightsError: They do not fit the model. What was served still is.
        """
        uri = None if isinstance(weights, Mapping) else fspath(weights)
        header = WeightsUpdate(version=PolicyVersion(version), uri=uri)
        tensors = tensor_stream(weights) if isinstance(weights, Mapping) else iter(())

        async def messages() -> AsyncIterator[wire.pb.UpdateWeightsRequest]:
            part: WeightsUpdate | TensorChunk | None = header
            while part is not None:
                yield wire.update_to_pb(part)
                part = await asyncio.to_thread(next, tensors, None)

        with translated():
            return wire.result_from_pb(await self._stub.UpdateWeights(messages(), timeout=timeout_s))

    async def abort(self, *request_ids: str, everything: bool = False) -> int:
        """End requests by id, or all; returns how many ran or waited. Their responses end with FinishReason.ABORT."""
        request = wire.pb.AbortRequest(request_ids=[RequestId(name) for name in request_ids], all=everything)

        async def call() -> int:
            with translated():
                return (await self._stub.Abort(request, timeout=CALL_S)).aborted_count

        return await _retried(call)

    async def info(self) -> ServerInfo:
        """What is served."""
        return await _retried(self._info)

    async def wait_ready(self, timeout_s: float, *, workers: int = 1) -> ServerInfo:
        """
        Wait until the gateway is there and so many workers take requests.

        Raises:
            UnavailableError: They were not within `timeout_s`.
        """
        missing = f"no gateway answers at {self.endpoint}"
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    try:
                        info = await self._info()
                    except UnavailableError as error:
                        missing = f"no gateway answers at {self.endpoint}: {error.message}"
                    else:
                        if info.workers >= workers:
                            return info
                        missing = f"{info.workers} of {workers} workers take requests at {self.endpoint}"
                    await asyncio.sleep(READY_PAUSE_S)
        except TimeoutError:
            raise UnavailableError(f"after {timeout_s:g} s {missing}") from None

    async def _info(self) -> ServerInfo:
        with translated():
            return wire.info_from_pb(await self._stub.GetServerInfo(wire.pb.GetServerInfoRequest(), timeout=CALL_S))


def arranged(responses: Mapping[tuple[int, int], TokenChunk], prompts: int, samples: int) -> list[list[TokenChunk]]:
    """Responses by prompt and sample."""
    return [[responses[prompt, sample] for sample in range(samples)] for prompt in range(prompts)]


def _prompt(
    token_ids: Sequence[int],
    sampling: SamplingParams,
    request_id: str,
    speculation: Speculation,
    capture: bool,
    policy_version: int | None,
) -> Prompt:
    return Prompt(
        request_id=RequestId(request_id),
        token_ids=tuple(token_ids),
        sampling=sampling,
        speculation=speculation,
        capture=capture,
        policy_version=None if policy_version is None else PolicyVersion(policy_version),
    )


async def _retried(call: Callable[[], Awaitable[Result]]) -> Result:
    """Repeat a harmless call while the gateway is not there. A deadline that passed is not a reason to try again."""
    for pause_s in RETRY_PAUSES_S:
        try:
            return await call()
        except UnavailableError as error:
            cause = error.__cause__
            if isinstance(cause, grpc.aio.AioRpcError) and cause.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            await asyncio.sleep(pause_s)
    return await call()
