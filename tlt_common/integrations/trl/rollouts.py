"""
Rollouts for TRL's GRPOTrainer and RLOOTrainer (written for TRL 1.16.0), without vLLM.

    rollouts = TltRollouts("localhost:7700")
    trainer = GRPOTrainer(..., args=GRPOConfig(use_vllm=False, ...), rollout_func=rollouts)

With tools or environments, and for RLOOTrainer, which has no `rollout_func`, attach the rollouts instead:

    trainer = GRPOTrainer(..., args=GRPOConfig(use_vllm=False, ...), tools=[...])
    rollouts.attach(trainer)

With `rollout_func` alone, TRL uses the logprobs only for `off_policy_mask_threshold`. The ratio in the loss is computed
against the trainer's own logprobs, as if the trainer had sampled the tokens itself. That is correct as long as engine
and trainer compute the same numbers (same precision, same kernels). If they differ, attach: GRPO then weights each
token by the trainer's probability over the engine's, as it does for vLLM, and logs the difference under `sampling/`.
Combine it with `vllm_importance_sampling_mode="token_truncate"`. The default, `"sequence_mask"` with a limit of 3,
multiplies the ratios of all tokens of a response and drops the response if the product is out of bounds, which affects
mainly long ones. Both sides divide logits by the temperature and ignore truncation (top-p, top-k, min-p).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from os import PathLike
from typing import Any, Protocol, TypeAlias, Unpack

from tlt_common.client import BlockingClient, Client, ClientOptions, SamplingParams, TokenChunk
from tlt_common.client.adapters import adapter_of
from tlt_common.errors import InvalidRequestError, NotFoundError, StaleVersionError
from tlt_common.integrations.siblings import grouped
from tlt_common.integrations.trl.colocation import SharedDevices
from tlt_common.integrations.trl.generation import TrainerGeneration
from tlt_common.integrations.trl.requests import derived_seed, require_usable, sampling_of, tokenized

StateDict: TypeAlias = Mapping[str, Any]
Export: TypeAlias = Callable[[StateDict], StateDict | str | PathLike[str]]


class BatchCall(Protocol):
    """Generates the responses of a rollout, by prompt and sample."""

    def __call__(
        self,
        client: BlockingClient,
        prompts: Sequence[Sequence[int]],
        samples: int,
        sampling: SamplingParams,
        /,
        *,
        policy_version: int,
    ) -> Sequence[Sequence[TokenChunk]]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """Timing and data of one rollout."""

    step: int
    """Global step of the trainer."""
    policy_version: int
    publish_s: float
    """Seconds for gathering, exporting and publishing weights; about 0 if they had not changed."""
    rollout_s: float
    """Seconds from the first prompt sent to the last response received."""
    prompts: tuple[tuple[int, ...], ...]
    responses: tuple[TokenChunk, ...]
    """One per prompt, in order."""


class TltRollouts:
    """
    The `rollout_func` of one trainer. Publishes the trainer's weights whenever its step has changed; of a PEFT model,
    the active adapter only.

    The policy version of step s is s + 1, since version 0 is what the engines started with. If the gateway already
    serves a higher version, numbering continues from there.
    """

    def __init__(
        self,
        endpoint: str | Sequence[str],
        *,
        export: Export = dict,
        adapter_base: str | PathLike[str] | None = None,
        answer: BatchCall = BlockingClient.batch,
        on_rollout: Callable[[Rollout], None] | None = None,
        seed: int | None = None,
        wait_s: float = 300.0,
        colocated: bool = False,
        **options: Unpack[ClientOptions],
    ) -> None:
        """
        Create the rollout function. It connects at the first rollout.

        Args:
            endpoint: host:port of the gateway, or several of gateways that are replicas.
            export: Converts the trainer's state dict for publication: to another state dict, for example with the
                engines' names, or to a directory of safetensors that workers can read. Of a PEFT model, it gets the
                adapter's tensors, and may return a directory that PEFT saved.
            adapter_base: The weights that the adapter of a PEFT model was trained on, as `base` of
                `Client.publish_adapter`. None: its base_model_name_or_path.
            answer: Called with client, prompts, samples per prompt, sampling parameters and the keyword policy_version,
                for tools and environments with session_ids, too; returns the responses by prompt and sample. Use
                `partial(BlockingClient.batch, on_progress=...)` to show progress.
            on_rollout: Called after each rollout, on every process.
            seed: Makes rollouts reproducible: each response is drawn with its own seed, derived from this one, the
                trainer's step and the process. The same seed, prompt and weights give the same tokens with and without
                speculation, up to rounding. None samples without seeds.
            wait_s: Seconds to wait for the gateway and the first worker.
            colocated: The trainer runs on the workers' devices: they release their memory after each rollout, and
                resume it before the next. Requires `engine.releasable`. With tools or environments, each turn is a
                rollout.
            options: Those of `Client`. The token needs the scopes generate and update_weights.
        """
        signature(Client).bind(endpoint, **options)  # now, and not at the first rollout
        self._connect = partial(BlockingClient, endpoint, **options)
        self._export = export
        self._adapter_base = adapter_base
        self._answer = answer
        self._on_rollout = on_rollout
        self._seed = seed
        self._rollouts = 0
        self._wait_s = wait_s
        self._client: BlockingClient | None = None
        self._devices = SharedDevices(lambda: self.client) if colocated else None
        self._published_step: int | None = None
        self._offset = 1

    @property
    def client(self) -> BlockingClient:
        """
        The client, created at first use: data loaders fork, which gRPC channels do not survive.

        Raises:
            UnavailableError: Gateway or workers were not ready in time.
        """
        if self._client is None:
            self._client = self._connect()
            self._client.wait_ready(self._wait_s)
        return self._client

    def close(self) -> None:
        """Close the connection; resume what is released. Idempotent."""
        try:
            if self._devices is not None:
                self._devices.close()
        finally:
            if self._client is not None:
                self._client.close()
                self._client = None

    def rollout_func(self, prompts: Sequence[Any], trainer: Any) -> dict[str, list[Any]]:
        """
        Generate one response for each of TRL's prompts, which list each prompt once per generation.

        Returns:
            prompt_ids, completion_ids and logprobs, lists of lists; and finish_reason ("stop" or "length"), which TRL
            passes to reward functions like a column of the data set.

        Raises:
            AbortedError: A response was aborted.
            InvalidRequestError: The trainer has tools or environments; they need `attach`.
            StaleVersionError: Another trainer publishes weights to the same fleet.
        """
        if getattr(trainer, "tools", None) and not isinstance(
            getattr(trainer, "vllm_generation", None), TrainerGeneration
        ):
            raise InvalidRequestError(
                "with tools or environments, TRL generates what follows a tool call on its own device; "
                "accepted: TltRollouts.attach(trainer) instead of rollout_func",
                field="rollout_func",
            )
        prompt_ids = tokenized(prompts, trainer)
        responses = self.roll_out(prompt_ids, trainer, trainer.num_generations)
        return {
            "prompt_ids": prompt_ids,
            "completion_ids": [list(response.token_ids) for response in responses],
            "logprobs": [list(response.logprobs) for response in responses],
            "finish_reason": [str(response.finish_reason) for response in responses],
        }

    __call__ = rollout_func

    def attach(self, trainer: Any) -> None:
        """
        Make a GRPOTrainer or RLOOTrainer, created with `use_vllm=False`, generate here instead of with vLLM.

        TRL then tokenizes prompts, calls tools and environments, masks what they return, and weights tokens by the
        difference between engine and trainer, exactly as it does with vLLM.

        Raises:
            InvalidRequestError: The trainer uses vLLM already.
        """
        if trainer.use_vllm and not isinstance(trainer.vllm_generation, TrainerGeneration):
            raise InvalidRequestError("the trainer uses vLLM; accepted: use_vllm=False", field="use_vllm")
        trainer.vllm_generation = TrainerGeneration(self.roll_out, trainer)
        trainer._last_loaded_step = -1  # noqa: SLF001 - TRL sets it only if it starts vLLM itself
        trainer.vllm_mode = "server"  # TRL reads the context length from an engine in its own process otherwise
        trainer.use_vllm = True

    def roll_out(
        self, prompt_ids: Sequence[Sequence[int]], trainer: Any, generations: int, session_ids: Sequence[str] = ()
    ) -> list[TokenChunk]:
        """
        Generate one response for each prompt, with the trainer's weights and sampling parameters.

        Args:
            prompt_ids: Token ids of the prompts, each as often as it has responses, next to each other.
            trainer: Trainer whose weights are published if its step has changed.
            generations: Responses per prompt.
            session_ids: Conversation that each response is a turn of; empty if it is the only turn.

        Raises:
            AbortedError: A response was aborted.
            StaleVersionError: Another trainer publishes weights to the same fleet.
        """
        started_s = time.perf_counter()
        if self._devices is not None:
            self._devices.before_publication(trainer)
        version = self._publish(trainer)
        if self._devices is not None:
            self._devices.before_rollout(trainer)
        published_s = time.perf_counter()
        unique, samples = (prompt_ids, 1) if session_ids else grouped(prompt_ids, generations)
        turns: dict[str, Any] = {"session_ids": session_ids} if session_ids else {}
        sampling = self._sampling(trainer)
        try:
            answers = self._answer(self.client, unique, samples, sampling, policy_version=version, **turns)
        except NotFoundError as error:
            raise StaleVersionError(
                f"{version} was published, but is no longer served: {error.message}; use one trainer per fleet"
            ) from error
        responses = [response for of_prompt in answers for response in of_prompt]
        require_usable(responses, version)
        finished_s = time.perf_counter()
        if self._devices is not None:
            self._devices.after_rollout(trainer)
        if self._on_rollout:
            rollout = Rollout(
                step=trainer.state.global_step,
                policy_version=version,
                publish_s=published_s - started_s,
                rollout_s=finished_s - published_s,
                prompts=tuple(map(tuple, prompt_ids)),
                responses=tuple(responses),
            )
            self._on_rollout(rollout)
        return responses

    def _sampling(self, trainer: Any) -> SamplingParams:
        sampling = sampling_of(trainer)
        self._rollouts += 1
        if self._seed is None:
            return sampling
        place = (trainer.state.global_step, self._rollouts, trainer.accelerator.process_index)
        return replace(sampling, seed=derived_seed(self._seed, *place))

    def _publish(self, trainer: Any) -> int:
        """Publish the weights if the step has changed; return the version to request. Called in all processes."""
        step: int = trainer.state.global_step
        if step != self._published_step:
            if trainer.accelerator.is_main_process and self._published_step is None:
                self._offset = max(1, self.client.info().policy_version + 1 - step)
            state_dict = trainer.accelerator.get_state_dict(
                trainer.model_wrapped
            )  # gathers shards, so call it on all processes
            if trainer.accelerator.is_main_process:
                self._send(step + self._offset, state_dict, trainer.model)
            self._offset = _from_main_process(self._offset)  # after the weights are published
            self._published_step = step
        return step + self._offset

    def _send(self, version: int, state_dict: StateDict, model: Any) -> None:
        if not hasattr(model, "peft_config"):
            self.client.publish_weights(version, self._export(state_dict))
            return
        config, tensors = adapter_of(model, state_dict)
        exported = self._export(tensors)
        adapter = exported if isinstance(exported, str | PathLike) else (config, exported)
        self.client.publish_adapter(version, adapter, base=self._adapter_base)


def _from_main_process(value: int) -> int:
    """Return the main process's value, once it is available. A gateway may not know the newest version yet."""
    from accelerate.utils import broadcast_object_list

    found: int = broadcast_object_list([value])[0]
    return found
