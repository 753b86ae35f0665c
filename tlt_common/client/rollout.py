"""The asyncio client."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from os import PathLike
from types import TracebackType
from typing import Any, Self

from tlt_common.client.adapters import Adapter, prepared
from tlt_common.client.batches import ResumedBatch, arranged
from tlt_common.client.control import FleetControl
from tlt_common.client.gateways import Gateways
from tlt_common.client.patience import Patience
from tlt_common.client.prompts import new_prompt, shifted
from tlt_common.client.readiness import CALL_S, info_of, known, until_ready
from tlt_common.client.responses import response
from tlt_common.client.retrying import retried
from tlt_common.client.rollout_log import RolloutLog
from tlt_common.client.updates import Weights, publish, publish_adapter
from tlt_common.domain.batch import Batch, Sample
from tlt_common.domain.bounds import MAX_ABORTED
from tlt_common.domain.merged_chunk import MergedChunk
from tlt_common.domain.prompt import SamplingParams, Speculation
from tlt_common.domain.response import TokenChunk
from tlt_common.domain.server_info import ServerInfo
from tlt_common.domain.weights import UpdateResult
from tlt_common.rpc.endpoint import Secret
from tlt_common.rpc.errors import translated
from tlt_common.wire import rollout as wire

PATIENCE_S = 600.0
"""Default of `patience_s`: longer than a gateway takes to restart on another node."""

_DEFAULT = SamplingParams()


class Client(FleetControl):
    """
    Client of a gateway: `async with Client("localhost:7700") as client`. Bound to the event loop it is used in.

    All methods raise TltErrors. Responses and batches that break, because the gateway or the connection is lost, are
    continued at the next endpoint from the tokens received so far; a seeded response has the same tokens as without the
    interruption. If a gateway refuses because its queue is full, the call is retried after the delay that it states. A
    gateway that disappears without closing its connection, such as a frozen machine, is detected after 40 s.

    Connections are direct, whatever `http_proxy` and `https_proxy` say. To reach a gateway through an HTTP proxy, set
    the environment variable `TLT_PROXY` to http://host:port; loopback addresses and those in `no_proxy` stay direct.
    """

    def __init__(
        self,
        endpoint: str | Sequence[str],
        *,
        token: Secret | None = None,
        ca: str | PathLike[str] | None = None,
        tls: bool | None = None,
        server_name: str = "",
        patience_s: float | None = PATIENCE_S,
        log: RolloutLog | None = None,
    ) -> None:
        """
        Create a client. Nothing is sent before the first call.

        Args:
            endpoint: host:port, or several of gateways that are replicas. A DNS name may have several addresses.
            token: Token sent with every call, or a `Path` to the file that contains it, reloaded when it changes.
            ca: CA bundle (PEM) to verify the server with, reloaded when it changes; None uses gRPC's default roots.
            tls: Whether to use TLS; None enables it if `ca` or `server_name` is given. False confirms that the
                connection is encrypted by other means, such as a service mesh; otherwise a token is sent unencrypted to
                this machine only.
            server_name: Name expected in the server certificate; empty means the host of `endpoint`. Use
                "gateway.tlt.internal" behind a tunnel or port-forward.
            patience_s: Seconds for which a response or batch that broke off, or was refused because the queue is full,
                is retried without receiving anything; 0 fails immediately, None sets no limit.
            log: Collects metrics of this client's responses and logs them after each publication of weights.

        Raises:
            ConfigError: The options contradict each other, or a file is unreadable or invalid.
        """
        super().__init__(Gateways(endpoint, token=token, ca=ca, tls=tls, server_name=server_name))
        self.endpoint = ", ".join(self._gateways.endpoints)
        self._patience_s = patience_s
        self._log = log

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection. Running requests are aborted."""
        await self._gateways.aclose()

    async def generate(
        self, prompt_ids: Sequence[int], sampling: SamplingParams = _DEFAULT, **options: Any
    ) -> TokenChunk:
        """
        Generate one response and return it as a whole.

        Options and errors are those of `stream`. Cancelling aborts the request.
        """
        merged = MergedChunk()
        async with aclosing(self.stream(prompt_ids, sampling, **options)) as chunks:
            async for chunk in chunks:
                merged.add(chunk)
        return merged.whole()

    async def stream(
        self,
        prompt_ids: Sequence[int],
        sampling: SamplingParams = _DEFAULT,
        *,
        request_id: str = "",
        speculation: Speculation = Speculation.AUTO,
        capture: bool = True,
        policy_version: int | None = None,
        max_staleness: int | None = None,
        prefix_ids: Sequence[int] = (),
        begun_version: int | None = None,
        session_id: str = "",
        cache_salt: str = "",
        routed_experts_start: int | None = None,
        prompt_logprobs_start: int | None = None,
        timeout_s: float | None = None,
    ) -> AsyncGenerator[TokenChunk, None]:
        """
        Generate one response, chunk by chunk. Closing the iterator aborts the request.

        Args:
            prompt_ids: Token ids of the prompt.
            sampling: Sampling parameters; the default samples at temperature 1 without truncation or penalties.
            request_id: Id for `abort`, unique among requests; empty generates one.
            speculation: Whether drafts may be used; the distribution is the same either way.
            capture: Whether hidden states may be used for drafter training.
            policy_version: Required policy version when the response begins; None accepts the version served. Weights
                published meanwhile generate the rest, as `TokenChunk.policy_versions` shows.
            max_staleness: Versions by which the first token may be behind the version served; None sets no limit. Once
                it is further behind, the response ends with FinishReason.ABORT and keeps the tokens within the limit.
            prefix_ids: Tokens of the response generated earlier. The response continues after them exactly as if it had
                not been interrupted: length limits and penalties count them, and a seed continues. Only new tokens are
                returned.
            begun_version: Policy version of the first of `prefix_ids`, from which `max_staleness` counts; None counts
                from the first new token.
            session_id: Conversation to which this request belongs. Its turns run on the worker that has the earlier
                ones cached, as load permits; `TokenChunk.stats` has the number of cached tokens.
            cache_salt: Only requests with the same salt share cached prefixes and what n-gram arms remember. Give each
                side of a comparison its own, or the second one's drafts come from the first one's responses.
            routed_experts_start: Return the experts to which the tokens from this position of the prompt on were
                routed, in `TokenChunk.routed_experts` of the last chunk; None returns none. Requires a mixture of
                experts and `engine.return_routed_experts` on the workers.
            prompt_logprobs_start: Return the log-probabilities of the prompt's tokens from this position on, in
                `TokenChunk.prompt_logprobs` of the first chunk; None returns none.
            timeout_s: Deadline of the whole response in seconds; None sets no deadline.
        """
        options = speculation, capture, policy_version, max_staleness, session_id
        prompt = new_prompt(
            prompt_ids,
            sampling,
            request_id,
            *options,
            prefix_ids=prefix_ids,
            begun_version=begun_version,
            cache_salt=cache_salt,
            routed_experts_start=routed_experts_start,
            prompt_logprobs_start=prompt_logprobs_start,
        )
        patience = Patience(self._patience_s, timeout_s=timeout_s)
        if self._log:
            self._log.begin()
        async with aclosing(response(self._gateways, prompt, patience)) as chunks:
            async for chunk in chunks:
                if self._log:
                    self._log.observe(chunk)
                yield chunk

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
        Generate `samples` responses for each prompt and return them in order.

        `on_progress` is called with each sample when it finishes; samples carry progress counts and the elapsed time.
        Options are those of `stream_batch`.
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
        session_ids: Sequence[str] = (),
        speculation: Speculation = Speculation.AUTO,
        capture: bool = True,
        policy_version: int | None = None,
        max_staleness: int | None = None,
        cache_salt: str = "",
        routed_experts_start: int | None = None,
        prompt_logprobs_start: int | None = None,
        timeout_s: float | None = None,
    ) -> AsyncGenerator[Sample, None]:
        """
        Generate `samples` responses for each prompt and yield each sample when it finishes.

        Closing the iterator aborts all requests. Options are those of `stream`, with one request id and one session per
        prompt. With a seed, every sample has its own: sample s of prompt p is drawn with `seed + p * samples + s`.
        """
        unnamed = [""] * len(prompts)
        options = speculation, capture, policy_version, max_staleness
        requests = [
            new_prompt(
                ids,
                shifted(sampling, at * samples),
                name,
                *options,
                session_id=session,
                cache_salt=cache_salt,
                routed_experts_start=routed_experts_start,
                prompt_logprobs_start=prompt_logprobs_start,
            )
            for at, (ids, name, session) in enumerate(
                zip(prompts, request_ids or unnamed, session_ids or unnamed, strict=True)
            )
        ]
        batch = ResumedBatch(self._gateways, requests, samples, Patience(self._patience_s, timeout_s=timeout_s))
        if self._log:
            self._log.begin()
        async with aclosing(batch.run()) as finished:
            async for sample in finished:
                if self._log:
                    self._log.observe(sample.response)
                yield sample

    async def announce(
        self, prompts: Sequence[Sequence[int]], samples: int = 1, sampling: SamplingParams = _DEFAULT
    ) -> int:
        """
        Announce the prompts of the next step, replacing earlier announcements. Return the number of workers that
        accepted some.

        Workers that are idle and lent to drafter training generate responses to them ahead of time: training data for
        the drafter, and text for n-gram arms. These responses are never returned, are cancelled when a request or new
        weights arrive, and are discarded with the next weights. Announce during the previous step's rollout or when
        learning begins. Announcements only affect speed. Seeds are ignored.

        Raises:
            InvalidRequestError: A prompt does not fit the model, or all prompts together do not fit into the gateway's
                queue.
        """
        options = Speculation.AUTO, True, None
        requests = [new_prompt(ids, sampling, "", *options) for ids in prompts]
        message = wire.announced_to_pb(Batch(prompts=requests, samples_per_prompt=samples))

        async def call(stub: wire.AsyncStub) -> int:
            with translated():
                return (await stub.Announce(message, timeout=CALL_S)).worker_count

        return await retried(self._gateways, call)

    async def publish_weights(
        self, version: int | None, weights: Weights, *, base: int | None = None, timeout_s: float | None = None
    ) -> UpdateResult:
        """
        Install weights on all workers, or on none if one refuses them. Requests in flight continue with the new ones.

        If the gateway or the connection is lost, the update is repeated at the next endpoint, under the same
        idempotency key: it takes effect once.

        Args:
            version: New policy version, above the one served; usually the trainer's step. None: the one after that,
                which the result says.
            weights: A directory of safetensors, as path or URL (file://, s3://, ...), that every worker can read and
                that stays unchanged until the next update, since workers that start in the meantime also read it; or a
                state dict of torch tensors or numpy arrays, which is streamed.
            base: The served version, if `weights` contain only changes since then: tensors, or `ChangedElements` of
                them. A directory with changes is read once.
            timeout_s: Deadline in seconds; None sets no deadline.

        Raises:
            InvalidRequestError: The version is not above the one served, which has other weights.
            StaleVersionError: Another update of this or a higher version came first, or `base` is not served.
            WeightsError: The weights do not fit the model. The previous weights stay in use.
        """
        result = await self._published(version, weights, base=base, timeout_s=timeout_s)
        if self._log:
            self._log.step(await known(self._gateways), result.version)
        return result

    async def _published(
        self, version: int | None, weights: Weights, *, base: int | None, timeout_s: float | None
    ) -> UpdateResult:
        patience = Patience(self._patience_s, timeout_s=timeout_s)
        return await publish(self._gateways, version, weights, patience, base=base)

    async def publish_adapter(
        self,
        version: int | None,
        adapter: Adapter,
        *,
        base: str | PathLike[str] | None = None,
        timeout_s: float | None = None,
    ) -> UpdateResult:
        """
        Install a LoRA adapter on all workers, or on none if one refuses it: each merges it into the whole weights that
        were published last, or that it started with. Only the adapter is sent. Otherwise as `publish_weights`.

        Args:
            version: As for `publish_weights`.
            adapter: A directory that PEFT saved, a PEFT model with one active adapter, or a pair of its configuration
                (`LoraConfig`, or the content of adapter_config.json) and the tensors of `get_peft_model_state_dict`.
            base: The weights that the adapter was trained on, which have to be those that workers merge it into: their
                directory, a model in Hugging Face's cache, or the `digest` that `publish_weights` returned for streamed
                tensors. None: the adapter's base_model_name_or_path.
            timeout_s: As for `publish_weights`.

        Raises:
            InvalidRequestError: As for `publish_weights`; also if the base is unknown.
            StaleVersionError: Another update of this or a higher version, or other whole weights, came first.
            WeightsError: The adapter was trained on other weights, does not fit the model, or is of a kind that cannot
                be merged exactly. The previous weights stay in use.
        """
        result = await self._adapted(version, adapter, base=base, timeout_s=timeout_s)
        if self._log:
            self._log.step(await known(self._gateways), result.version)
        return result

    async def _adapted(
        self, version: int | None, adapter: Adapter, *, base: str | PathLike[str] | None, timeout_s: float | None
    ) -> UpdateResult:
        patience = Patience(self._patience_s, timeout_s=timeout_s)
        ready = await asyncio.to_thread(prepared, adapter, base)
        return await publish_adapter(self._gateways, version, ready, patience)

    async def abort(self, *request_ids: str, everything: bool = False) -> int:
        """
        Abort requests by id, or all requests; return how many were running or queued. Their responses end with
        FinishReason.ABORT.

        A response that is being continued at another gateway ends, too, if it is aborted by id.
        """
        aborted = 0
        for first in range(0, max(1, len(request_ids)), MAX_ABORTED):
            request = wire.pb.AbortRequest(request_ids=request_ids[first : first + MAX_ABORTED], all=everything)

            async def call(stub: wire.AsyncStub, request: wire.pb.AbortRequest = request) -> int:
                with translated():
                    return (await stub.Abort(request, timeout=CALL_S)).aborted_count

            aborted += await retried(self._gateways, call)
        return aborted

    async def info(self) -> ServerInfo:
        """Return the state of the rollout endpoint."""
        return await retried(self._gateways, info_of)

    async def wait_ready(self, timeout_s: float, *, workers: int = 1) -> ServerInfo:
        """
        Wait until the gateway is reachable and `workers` workers accept requests.

        Raises:
            UnavailableError: They are not ready within `timeout_s`.
        """
        return await until_ready(self._gateways, timeout_s, workers=workers)
