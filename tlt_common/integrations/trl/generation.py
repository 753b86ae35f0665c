"""Replacement for TRL's VLLMGeneration, with the methods that its trainers call to generate."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tlt_common.client import TokenChunk
from tlt_common.errors import InvalidRequestError
from tlt_common.integrations.trl.conversation import Conversations

RollOut: TypeAlias = Callable[[Sequence[Sequence[int]], Any, int, Sequence[str]], list[TokenChunk]]


class TrainerGeneration:
    """
    Args:
        roll_out: Generates one response for each prompt of a trainer, given the number of responses per prompt and,
            with tools or environments, the sessions.
        trainer: The trainer that calls.
    """

    def __init__(self, roll_out: RollOut, trainer: Any) -> None:
        self._roll_out = roll_out
        self._trainer = trainer
        self._conversations = Conversations()

    def sync_weights(self) -> None:
        """Do nothing: weights are published with the first rollout of a step."""

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        images: Sequence[Any] | None,
        num_generations: int,
        profiler: Any = None,
    ) -> tuple[list[list[int]], list[list[int]], list[list[list[float]]], list[list[list[int]]]]:
        """
        Generate one response for each of this process's prompts, which list each prompt once per generation.

        Returns:
            Token ids of the prompts, token ids of the responses, and, for each token of a response, a list with its
            logprob and a list with its id.

        Raises:
            InvalidRequestError: There are images.
        """
        del profiler  # measures TRL's own calls of vLLM
        if any(images or ()):
            raise InvalidRequestError("prompts have images; only text is supported", field="images")
        sessions = self._conversations.sessions(prompts) if getattr(self._trainer, "tools", None) else []
        responses = self._roll_out(prompts, self._trainer, num_generations, sessions)
        if sessions:
            self._conversations.answered(prompts, sessions, responses)
        return (
            [list(ids) for ids in prompts],
            [list(response.token_ids) for response in responses],
            [[[logprob] for logprob in response.logprobs] for response in responses],
            [[[token] for token in response.token_ids] for response in responses],
        )
