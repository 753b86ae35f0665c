"""
TRL's GRPOTrainer with rollouts from the suite.

    rollouts = TltRollouts("localhost:7700")
    trainer = GRPOTrainer(model=..., args=..., reward_funcs=..., rollout_func=rollouts)

Written for TRL 1.16 (`trl/trainer/grpo_trainer.py`, `_generate`): the function is called with the prompts of this
process, each repeated `num_generations` times in a row, and returns `prompt_ids`, `completion_ids` and `logprobs` per
sample. With `use_vllm=False` TRL takes the policy's own logprobs as old ones and does not look at those returned; that
is exact as long as each generation batch is used once (`num_iterations=1`, `steps_per_generation` equal to
`gradient_accumulation_steps`, both defaults), since rollouts then come from the very weights that are trained.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from tlt_common.client import BlockingClient, SamplingParams, TokenChunk
from tlt_common.errors import InvalidRequestError

Answer: TypeAlias = Callable[
    [BlockingClient, Sequence[Sequence[int]], int, SamplingParams], Sequence[Sequence[TokenChunk]]
]
"""Client, prompts as token ids, samples per prompt, sampling -> responses by prompt and sample."""

StateDict: TypeAlias = Mapping[str, Any]

READY_S = 600.0
"""Longest wait for the endpoint at the first step; engines take a while to start."""


def _batch(
    client: BlockingClient, prompts: Sequence[Sequence[int]], samples: int, sampling: SamplingParams
) -> Sequence[Sequence[TokenChunk]]:
    return client.batch(prompts, samples, sampling)


class TltRollouts:
    """
    A `rollout_func`. Publishes the policy's weights before the first rollout and after every optimizer step.

    Args:
        endpoint: host:port of the gateway.
        export: Makes what is served from the policy's state dict, such as merged adapters. None serves it as it is.
        dtype: Name of the torch type that weights are sent in; None sends them as they are.
        answer: Gets the responses; replaced to time, count or compare them.
    """

    # Trainers and loggers ask callables for their name.
    __name__ = "tlt_rollouts"

    def __init__(
        self,
        endpoint: str,
        *,
        export: Callable[[StateDict], StateDict] | None = None,
        dtype: str | None = "bfloat16",
        answer: Answer = _batch,
    ) -> None:
        self.client = BlockingClient(endpoint)
        self._export = export
        self._dtype = dtype
        self._answer = answer
        self._published_step: int | None = None

    def close(self) -> None:
        """Close the connection."""
        self.client.close()

    def __call__(self, prompts: list[Any], trainer: Any) -> dict[str, list[Any]]:
        """
        Answer the prompts of one generation batch.

        Raises:
            InvalidRequestError: Prompts do not come in groups of `num_generations`.
            TltError: The endpoint refused, or is not there.
        """
        if self._published_step is None:
            self.client.wait_ready(READY_S)
        if self._published_step != trainer.state.global_step:
            self.publish(trainer)
        samples = trainer.num_generations if trainer.model.training else trainer.num_generations_eval
        unique = _grouped(prompts, samples)
        prompt_ids = [_tokenized(prompt, trainer.processing_class) for prompt in unique]
        groups = self._answer(self.client, prompt_ids, samples, sampling_of(trainer))
        responses = [response for group in groups for response in group]
        return {
            "prompt_ids": [list(ids) for ids in prompt_ids for _ in range(samples)],
            "completion_ids": [list(response.token_ids) for response in responses],
            "logprobs": [list(response.logprobs) for response in responses],
        }

    def publish(self, trainer: Any) -> None:
        """Install the policy's present weights on all workers, under the next version."""
        model = trainer.accelerator.unwrap_model(trainer.model)
        state: StateDict = model.state_dict()
        if self._export:
            state = self._export(state)
        if self._dtype is not None:
            import torch

            dtype = getattr(torch, self._dtype)
            state = {name: tensor.detach().to(dtype) for name, tensor in state.items()}
        # Counted from what is served: the suite may have had another trainer before this one.
        self.client.publish_weights(self.client.info().policy_version + 1, state)
        self._published_step = trainer.state.global_step


def sampling_of(trainer: Any) -> SamplingParams:
    """Take over the sampling that a GRPOTrainer was configured with."""
    return SamplingParams(
        temperature=trainer.temperature,
        top_p=trainer.top_p,
        top_k=trainer.top_k or 0,
        min_p=trainer.min_p or 0.0,
        repetition_penalty=trainer.repetition_penalty,
        max_new_tokens=trainer.max_completion_length,
    )


def _grouped(prompts: Sequence[Any], samples: int) -> list[Any]:
    unique = list(prompts[::samples])
    if [prompt for prompt in unique for _ in range(samples)] != list(prompts):
        raise InvalidRequestError(
            f"prompts do not come in groups of num_generations = {samples}; accepted: a generation batch per process "
            "that is a multiple of it",
            field="prompts",
        )
    return unique


def _tokenized(prompt: Any, tokenizer: Any) -> list[int]:
    """Plain text, or messages through the chat template."""
    if isinstance(prompt, str):
        ids: list[int] = tokenizer(prompt)["input_ids"]
        return ids
    chat: list[int] = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_dict=True)["input_ids"]
    return chat
