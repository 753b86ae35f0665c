"""
Rollouts for TRL's GRPOTrainer (written against TRL 1.16.0), without vLLM.

    rollouts = TltRollouts("localhost:7700")
    trainer = GRPOTrainer(..., args=GRPOConfig(use_vllm=False, ...), rollout_func=rollouts)

What TRL does with the logprobs of a `rollout_func`: with `use_vllm=False` they enter `off_policy_mask_threshold` and
nothing else; the ratio of the loss is taken against the trainer's own logprobs, as if it had sampled itself. That is
right as long as engine and trainer compute the same numbers (same precision, same kernels). Where they differ, call
`rollouts.correct_sampling(trainer)` once: TRL then weighs each token by the probability that the trainer gave it over
that of the engine, as it does for vLLM, and logs how far they are apart under `sampling/`. Set
`vllm_importance_sampling_mode="token_truncate"` with it. The default, `"sequence_mask"` with a limit of 3, multiplies
the ratios of all tokens of a response and drops the response when the product is out of bounds, which is what happens
to the long ones. Both sides divide logits by the temperature and leave truncation (top-p, top-k, min-p) out.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from math import gcd
from os import PathLike
from types import SimpleNamespace
from typing import Any, TypeAlias

from tlt_common.client import BlockingClient, FinishReason, SamplingParams, TokenChunk
from tlt_common.errors import AbortedError, InvalidRequestError, StaleVersionError
from tlt_common.rpc.endpoint import Secret

StateDict: TypeAlias = Mapping[str, Any]
Export: TypeAlias = Callable[[StateDict], StateDict | str | PathLike[str]]
Answer: TypeAlias = Callable[
    [BlockingClient, Sequence[Sequence[int]], int, SamplingParams], Sequence[Sequence[TokenChunk]]
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """What one call of TRL took."""

    step: int
    """The trainer's global step."""
    policy_version: int
    publish_s: float
    """Gathering, exporting and publishing weights; 0 when they had not changed."""
    rollout_s: float
    """From the first prompt sent to the last response received."""
    prompts: tuple[tuple[int, ...], ...]
    responses: tuple[TokenChunk, ...]
    """One per prompt."""


class TltRollouts:
    """
    The `rollout_func` of one trainer. Publishes the trainer's weights whenever its step has moved.

    The policy version of step s is s + 1, since 0 is what the engines started with; against a gateway that already
    serves a higher one, counting goes on from there.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        export: Export = dict,
        answer: Answer = BlockingClient.batch,
        on_rollout: Callable[[Rollout], None] | None = None,
        wait_s: float = 300.0,
        token: Secret | None = None,
        ca: str | PathLike[str] | None = None,
        tls: bool | None = None,
        server_name: str = "",
    ) -> None:
        """
        Connect at the first rollout.

        Args:
            endpoint: host:port of the gateway.
            export: Makes what is published of the trainer's state dict: another state dict, such as the image of the
                weights that the engines serve, or a directory of safetensors that workers can read.
            answer: Gets client, prompts, samples per prompt and sampling, and returns the responses by prompt and
                sample; `partial(BlockingClient.batch, on_progress=...)` shows how a rollout goes.
            on_rollout: Called after each rollout, on every process.
            wait_s: Longest time to wait for gateway and first worker.
            token: Of scopes generate and update_weights; this and the rest as for `Client`.
            ca: PEM file of the authorities that are believed.
            tls: Whether to encrypt; None: if `ca` is given.
            server_name: Name that must be in the gateway's certificate.
        """
        self._connect = partial(BlockingClient, endpoint, token=token, ca=ca, tls=tls, server_name=server_name)
        self._export = export
        self._answer = answer
        self._on_rollout = on_rollout
        self._wait_s = wait_s
        self._client: BlockingClient | None = None
        self._published_step: int | None = None
        self._offset = 1

    @property
    def client(self) -> BlockingClient:
        """
        The connection, made at first use: data loaders fork, and gRPC does not survive that.

        Raises:
            UnavailableError: Gateway or workers were not there in time.
        """
        if self._client is None:
            self._client = self._connect()
            self._client.wait_ready(self._wait_s)
        return self._client

    def close(self) -> None:
        """End the connection. Repeating it does nothing."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def rollout_func(self, prompts: Sequence[Any], trainer: Any) -> dict[str, list[Any]]:
        """
        Answer TRL's prompts, which hold each prompt once per generation, with one response each.

        Returns:
            prompt_ids, completion_ids and logprobs, lists of lists; and finish_reason ("stop" or "length"), which TRL
            hands to reward functions as it does columns of the data set.

        Raises:
            AbortedError: Somebody aborted a response.
            StaleVersionError: Somebody else publishes weights to the same gateway.
        """
        started_s = time.perf_counter()
        version = self._publish(trainer)
        published_s = time.perf_counter()
        prompt_ids = tokenized(prompts, trainer)
        asked, samples = grouped(prompt_ids, trainer.num_generations)
        answers = self._answer(self.client, asked, samples, sampling_of(trainer))
        responses = [response for of_prompt in answers for response in of_prompt]
        _require_usable(responses, version)
        if self._on_rollout:
            rollout = Rollout(
                step=trainer.state.global_step,
                policy_version=version,
                publish_s=published_s - started_s,
                rollout_s=time.perf_counter() - published_s,
                prompts=tuple(map(tuple, prompt_ids)),
                responses=tuple(responses),
            )
            self._on_rollout(rollout)
        return {
            "prompt_ids": prompt_ids,
            "completion_ids": [list(response.token_ids) for response in responses],
            "logprobs": [list(response.logprobs) for response in responses],
            "finish_reason": [str(response.finish_reason) for response in responses],
        }

    __call__ = rollout_func

    def correct_sampling(self, trainer: Any) -> None:
        """Have TRL correct for differences between engine and trainer, which it does only if it believes in vLLM."""
        trainer.vllm_generation = SimpleNamespace(sync_weights=lambda: None)  # `rollout_func` publishes
        trainer._last_loaded_step = -1  # noqa: SLF001 - TRL sets it only where it starts vLLM itself
        trainer.use_vllm = True

    def _publish(self, trainer: Any) -> int:
        """Publish if the step has moved; return the version to ask for. All processes come here together."""
        step: int = trainer.state.global_step
        if step != self._published_step:
            if trainer.accelerator.is_main_process and self._published_step is None:
                self._offset = max(1, self.client.info().policy_version + 1 - step)
            state_dict = trainer.accelerator.get_state_dict(trainer.model_wrapped)  # gathers shards: on all processes
            if trainer.accelerator.is_main_process:
                self.client.publish_weights(step + self._offset, self._export(_of_policy(state_dict, trainer.model)))
            trainer.accelerator.wait_for_everyone()
            if not trainer.accelerator.is_main_process:
                self._offset = self.client.info().policy_version - step
            self._published_step = step
        return step + self._offset


def grouped(prompt_ids: Sequence[Sequence[int]], generations: int) -> tuple[list[Sequence[int]], int]:
    """
    Take TRL's prompts apart into groups of one prompt and n samples, so that the suite knows them for siblings.

    `generations` is n, of which processes may have a part each, and a step may hold a prompt twice in a row: groups are
    the largest of one size that all of these are made of.

    Returns:
        Prompts, each for as many responses as the number beside them.
    """
    samples = gcd(generations, *(len(list(same)) for _, same in groupby(prompt_ids)))
    return list(prompt_ids[::samples]), samples


def tokenized(prompts: Sequence[Any], trainer: Any) -> list[list[int]]:
    """Token ids as TRL itself makes them of text, or of conversations by the chat template."""
    if isinstance(prompts[0], str):
        ids: list[list[int]] = trainer.processing_class(text=list(prompts))["input_ids"]
        return ids
    templated: list[list[int]] = trainer.processing_class.apply_chat_template(
        conversation=list(prompts),
        tools=trainer.tools or None,
        chat_template=trainer.chat_template,
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        **trainer.chat_template_kwargs,
    )["input_ids"]
    return templated


def sampling_of(trainer: Any) -> SamplingParams:
    """
    How the trainer wants responses sampled.

    Raises:
        InvalidRequestError: A number is out of range.
    """
    return SamplingParams(
        temperature=trainer.temperature,
        top_p=trainer.top_p,
        top_k=trainer.top_k or 0,
        min_p=trainer.min_p or 0.0,
        repetition_penalty=trainer.repetition_penalty,
        max_new_tokens=trainer.max_completion_length,
        stop_token_ids=tuple(trainer.eos_token_ids),
    )


def _require_usable(responses: Sequence[TokenChunk], version: int) -> None:
    for response in responses:
        if response.finish_reason is FinishReason.ABORT:
            raise AbortedError(f"request {response.request_id} was aborted; a step needs all of its responses")
        if others := set(response.policy_versions) - {version}:
            raise StaleVersionError(
                f"request {response.request_id} has tokens of versions {sorted(others)}, published was {version}; "
                "one trainer per gateway"
            )


def _of_policy(state_dict: StateDict, model: Any) -> StateDict:
    if hasattr(model, "peft_config"):  # its weights have names that no engine knows
        raise InvalidRequestError("the model has PEFT adapters; accepted: one whose weights are merged", field="model")
    return state_dict
