"""
The suite as verl's rollout server (written for verl 0.9.1): `rollout.name=tlt` and `checkpoint_engine.backend=tlt`.

verl creates one Ray actor per replica and calls it by the methods of `TltServer`. The actor needs no GPU: it passes
requests on to the gateway. `plugin` registers it; this module imports neither verl nor Ray.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tlt_common.client import Client, FinishReason, TokenChunk
from tlt_common.domain.pause import PauseMode
from tlt_common.errors import InvalidRequestError
from tlt_common.integrations.connection import Connection
from tlt_common.integrations.sampling import ending_at
from tlt_common.integrations.verl.requests import Lengths, prompt_fields, prompt_logprobs_start, sampling_of

STOP_REASONS = {FinishReason.STOP: "completed", FinishReason.LENGTH: "completed", FinishReason.ABORT: "aborted"}
"""verl resubmits what was aborted, with the tokens it has as part of the prompt."""


class TltServer:
    """
    Replaces a vLLM or SGLang server for verl, including the workers that receive weights.

    Generation is paused for the whole fleet, not for the requests of one actor: one trainer per fleet.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        prompt_length: int,
        response_length: int,
        ignore_eos: bool = False,
        end_token_ids: tuple[int, ...] = (),
        output: Callable[..., Any] = dict,
    ) -> None:
        """
        Create the server. It connects in `launch`.

        Args:
            connection: Connection options of the gateway.
            prompt_length: verl's `rollout.prompt_length`.
            response_length: verl's `rollout.response_length`.
            ignore_eos: verl's `rollout.ignore_eos`.
            end_token_ids: End tokens of verl's tokenizer and generation config, which end responses like the model's.
            output: verl's TokenOutput.
        """
        self._connection = connection
        self._widths = {"prompt_length": prompt_length, "response_length": response_length}
        self._ignore_eos = ignore_eos
        self._end_token_ids = end_token_ids
        self._output = output
        self._client: Client | None = None
        self._lengths: Lengths | None = None
        self._rejecting = False
        self._step = 0
        self._coming: int | None = None
        self._offset = 0

    async def launch(self) -> str:
        """
        Connect, and return the gateway's address.

        Raises:
            UnavailableError: Gateway or workers are not ready in time.
        """
        client = self._connected()
        info = await client.wait_ready(self._connection.wait_s)
        self._lengths = Lengths(**self._widths, context_length=info.context_length)
        return client.endpoint

    async def generate(
        self,
        request_id: str,
        prompt_ids: Sequence[int],
        sampling_params: dict[str, Any],
        image_data: Any = None,
        video_data: Any = None,
        audio_data: Any = None,
        mm_processor_kwargs: Any = None,
        session_id: str = "",
    ) -> Any:
        """
        Generate one response.

        Args:
            request_id: Id of this call; verl gives each turn and each resubmission a new one.
            prompt_ids: Token ids of the prompt.
            sampling_params: verl's parameters; without `max_tokens` the lengths of the configuration are the limit.
            image_data: Must be None or empty, as must `video_data`, `audio_data` and `mm_processor_kwargs`.
            video_data: See `image_data`.
            audio_data: See `image_data`.
            mm_processor_kwargs: See `image_data`.
            session_id: The conversation, if `TltRouter` routes; its turns run where the earlier ones are cached.

        Returns:
            verl's TokenOutput. `extra_fields["global_steps"]` is the step of the oldest weights that sampled a token.

        Raises:
            InvalidRequestError: There are images, or a parameter is not supported or out of range.
        """
        others = {"image_data": image_data, "video_data": video_data, "audio_data": audio_data}
        for name, value in (others | {"mm_processor_kwargs": mm_processor_kwargs}).items():
            if value:
                raise InvalidRequestError(f"{name} is not supported; only text is", field=name)
        if self._lengths is None:
            await self.launch()
        assert self._lengths is not None  # noqa: S101 - launch has set it
        prompt, wants_logprobs = [int(token) for token in prompt_ids], bool(sampling_params.get("logprobs"))
        limit = self._lengths.max_new_tokens(sampling_params, len(prompt))
        plain = sampling_of(sampling_params, max_new_tokens=max(1, limit), ignore_eos=self._ignore_eos)
        sampling, start = ending_at(plain, self._end_token_ids), prompt_logprobs_start(sampling_params)
        if self._rejecting or not limit:
            return self._empty("aborted" if self._rejecting else "completed")
        response = await self._connected().generate(
            prompt, sampling, request_id=request_id, session_id=session_id, prompt_logprobs_start=start
        )
        scored = response.prompt_logprobs
        extra = {} if scored is None else prompt_fields(prompt, scored.logprobs)
        return self._answer(response, extra, wants_logprobs=wants_logprobs)

    async def abort_all_requests(self, reject_request: bool = False) -> None:
        """
        Pause generation at all gateways. Running and queued requests end with their current tokens; later ones wait.

        Args:
            reject_request: Return later requests as aborted instead of letting them wait.
        """
        self._rejecting = reject_request
        await self._connected().pause(PauseMode.ABORT)

    async def resume_generation(self) -> None:
        """End the pause."""
        self._rejecting = False
        await self._connected().proceed()

    async def set_global_steps(self, global_steps: int) -> None:
        """Record verl's step of the currently served weights."""
        self._step = global_steps
        self._offset = (await self._connected().info()).policy_version - global_steps

    async def update_weights(self, global_steps: int | None = None) -> None:
        """Record the step of the coming weights, which the trainer sends to the gateway."""
        self._coming = global_steps

    async def execute_checkpoint_engine(self, method: str) -> None:
        """Take part in an update. After the last step, `finalize`, the announced weights are served."""
        if method == "finalize" and self._coming is not None:
            await self.set_global_steps(self._coming)
            self._coming = None

    async def sleep(self) -> None:
        """Do nothing: the trainer's GPUs are not used."""

    async def wake_up(self) -> None:
        """Do nothing; see `sleep`."""

    async def release_kv_cache(self) -> None:
        """Do nothing: weights are received while the cache stays."""

    async def resume_kv_cache(self) -> None:
        """Do nothing; see `release_kv_cache`."""

    async def clear_kv_cache(self) -> None:
        """Do nothing: caches of other weights are never used."""

    async def start_profile(self, **_: Any) -> None:
        """
        Raises:
            InvalidRequestError: Always.
        """
        raise InvalidRequestError(
            "rollouts are not profiled by verl; accepted: rollout.profiler.enable=False", field="rollout.profiler"
        )

    async def stop_profile(self) -> None:
        """Do nothing: no profile was started."""

    async def aclose(self) -> None:
        """Close the connection. Idempotent."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    def _connected(self) -> Client:
        if self._client is None:  # in the event loop of the calls, to which it is bound
            self._client = self._connection.client()
        return self._client

    def _empty(self, stop_reason: str) -> Any:
        steps = {"global_steps": self._step, "min_global_steps": self._step, "max_global_steps": self._step}
        return self._output(token_ids=[], log_probs=[], stop_reason=stop_reason, extra_fields=steps | _statistics(None))

    def _answer(self, response: TokenChunk, extra: dict[str, Any], *, wants_logprobs: bool) -> Any:
        assert response.finish_reason is not None  # noqa: S101 - the response is complete
        steps = [version - self._offset for version in response.policy_versions] or [self._step]
        known = {"global_steps": min(steps), "min_global_steps": min(steps), "max_global_steps": max(steps)}
        return self._output(
            token_ids=list(response.token_ids),
            log_probs=list(response.logprobs) if wants_logprobs else None,
            stop_reason=STOP_REASONS[response.finish_reason],
            extra_fields=known | _statistics(response) | extra,
        )


def _statistics(response: TokenChunk | None) -> dict[str, int]:
    """Return verl's metrics under its names. The set is always the same, since verl makes columns of them."""
    stats = response.stats if response else None
    return {
        "num_cached_tokens": stats.cached_tokens if stats else 0,
        "spec_num_draft_tokens": stats.proposed_draft_tokens if stats else 0,
        "spec_num_accepted_tokens": stats.accepted_draft_tokens if stats else 0,
        "spec_num_verify_steps": max(0, stats.rounds - 1) if stats else 0,
    }
