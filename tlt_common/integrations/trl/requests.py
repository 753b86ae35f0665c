"""Converts TRL's generation calls to requests, and checks that responses may be used for training."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from tlt_common.client import FinishReason, SamplingParams, TokenChunk
from tlt_common.errors import AbortedError, StaleVersionError
from tlt_common.integrations.sampling import arguments_of
from tlt_common.integrations.trl.chat import templated


def derived_seed(seed: int, *place: int) -> int:
    """
    Derive the seed of one rollout from the seed of the run.

    The seeds of a rollout's responses count up from it, so seeds of two rollouts must be far apart; hence a hash.
    """
    text = "/".join(map(str, (seed, *place)))
    return int.from_bytes(blake2b(text.encode(), digest_size=7).digest())


def tokenized(prompts: Sequence[Any], trainer: Any) -> list[list[int]]:
    """Tokenize prompts as TRL does: text directly, conversations with the chat template."""
    if isinstance(prompts[0], str):
        ids: list[list[int]] = trainer.processing_class(text=list(prompts))["input_ids"]
        return ids
    found: list[list[int]] = templated(
        trainer.processing_class,
        list(prompts),
        template=trainer.chat_template,
        tools=trainer.tools or None,
        add_generation_prompt=True,
        **trainer.chat_template_kwargs,
    )
    return found


def sampling_of(trainer: Any) -> SamplingParams:
    """
    Return the trainer's sampling parameters. Its `generation_kwargs`, under vLLM's names, take precedence.

    Raises:
        InvalidRequestError: A parameter is not supported or out of range; the message names it.
    """
    own = {
        "temperature": trainer.temperature,
        "top_p": trainer.top_p,
        "top_k": trainer.top_k,
        "min_p": trainer.min_p,
        "repetition_penalty": trainer.repetition_penalty,
        "max_tokens": trainer.max_completion_length,
        "stop_token_ids": trainer.eos_token_ids,
    }
    return SamplingParams(**arguments_of(own | (trainer.args.generation_kwargs or {})))


def require_usable(responses: Sequence[TokenChunk], version: int) -> None:
    """
    Check that a step may train on these responses.

    Raises:
        AbortedError: A response was aborted.
        StaleVersionError: A response has tokens of another version.
    """
    for response in responses:
        if response.finish_reason is FinishReason.ABORT:
            raise AbortedError(f"request {response.request_id} was aborted; a step needs all of its responses")
        if others := set(response.policy_versions) - {version}:
            raise StaleVersionError(
                f"request {response.request_id} has tokens of versions {sorted(others)}, but {version} was published; "
                "use one trainer per fleet"
            )
