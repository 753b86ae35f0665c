"""Generates the episodes of TRL's AsyncGRPOTrainer: single responses, or conversations with tools."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from tlt_common.client import Client, FinishReason, SamplingParams
from tlt_common.domain.request_ids import new_request_id
from tlt_common.errors import AbortedError, InvalidRequestError
from tlt_common.integrations.trl.chat import ChatTokenizer, Message, Tool
from tlt_common.integrations.trl.conversation import PlayedConversation
from tlt_common.integrations.trl.environments import Environments, observed, reward_of, tools_of
from tlt_common.integrations.trl.episode import Episode
from tlt_common.integrations.trl.requests import derived_seed

NO_PROMPT: list[Message] = [{"role": "user", "content": ""}]
"""For rows without a prompt: the environment's observation is all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """Generates the episodes of one row at the rollout endpoint."""

    chat: ChatTokenizer
    sampling: SamplingParams
    """Parameters of every response. With tools, `max_new_tokens` limits a conversation including tool results."""
    samples: int
    """Number of episodes per row."""
    tools: Sequence[Tool] = ()
    environments: Environments | None = None
    max_calls: int | None = None
    """Maximum number of tool calls per conversation; None sets no limit."""
    max_staleness: int | None = None

    async def group(self, client: Client, index: int, row: Mapping[str, Any]) -> list[Episode]:
        """
        Generate a row's episodes.

        Args:
            client: Client of the gateway.
            index: Position among the groups of the run.
            row: Row of the data set.

        Raises:
            AbortedError: A response was aborted. The others of the group are not completed.
            InvalidRequestError: The prompt is missing, or it is text although tools may be called.
        """
        if not (self.tools or self.environments):
            return await self._responses(client, index, row["prompt"])
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._episode(client, (index, at), row)) for at in range(self.samples)]
        except ExceptionGroup as errors:
            if errors.split(AbortedError)[1] is None:  # nothing else went wrong
                raise AbortedError(f"group {index}: a response was aborted") from errors
            raise
        return [task.result() for task in tasks]

    async def _responses(self, client: Client, index: int, prompt: Any) -> list[Episode]:
        prompt_ids = self.chat.prompt_ids(prompt)
        sampling = self._seeded(self.sampling, index)
        (found,) = await client.batch([prompt_ids], self.samples, sampling, max_staleness=self.max_staleness)
        if any(one.finish_reason is FinishReason.ABORT for one in found):
            raise AbortedError(f"group {index}: a response was aborted")
        texts = [self.chat.text(one.token_ids) for one in found]
        return [
            Episode(
                prompt=prompt,
                prompt_ids=prompt_ids,
                completion=text if isinstance(prompt, str) else [{"role": "assistant", "content": text}],
                token_ids=one.token_ids,
                logprobs=one.logprobs,
                sampled=[True] * len(one.token_ids),
                oldest_version=min(one.policy_versions),
                mean_version=fmean(one.policy_versions),
            )
            for one, text in zip(found, texts, strict=True)
        ]

    async def _episode(self, client: Client, place: tuple[int, int], row: Mapping[str, Any]) -> Episode:
        prompt = row.get("prompt", NO_PROMPT) if self.environments else row["prompt"]
        if isinstance(prompt, str):
            raise InvalidRequestError(
                f"prompt is {prompt!r:.80}; accepted: a conversation, since responses may call tools", field="prompt"
            )
        if self.environments is None:
            return (await self._converse(client, place, PlayedConversation(prompt, self.chat, self.tools))).episode()
        async with self.environments.taken(row) as (environment, observation):
            tools = [*self.tools, *tools_of(environment)]
            conversation = PlayedConversation(observed(prompt, observation), self.chat, tools)
            await self._converse(client, place, conversation)
            reward = await reward_of(environment)
        return replace(conversation.episode(), environment=type(environment), reward=reward)

    async def _converse(
        self, client: Client, place: tuple[int, int], conversation: PlayedConversation
    ) -> PlayedConversation:
        """Let the policy respond and call tools until it makes no call, reaches a limit, or has no room."""
        assert self.sampling.max_new_tokens is not None  # noqa: S101 - required with tools
        session_id, turn = new_request_id(), 0
        while (room := self.sampling.max_new_tokens - len(conversation.token_ids)) > 0:
            shortest = min(room, self.sampling.min_new_tokens)
            sampling = replace(self.sampling, max_new_tokens=room, min_new_tokens=shortest)
            response = await client.generate(
                conversation.context_ids,
                self._seeded(sampling, *place, turn),
                max_staleness=self.max_staleness,
                begun_version=conversation.begun_version,
                session_id=session_id,
            )
            if response.finish_reason is FinishReason.ABORT:
                raise AbortedError("a response was aborted")
            calls = conversation.add_response(response)
            if not calls or turn == self.max_calls:
                return conversation
            await conversation.add_results(calls)
            turn += 1
        conversation.drop_results()
        return conversation

    def _seeded(self, sampling: SamplingParams, *place: int) -> SamplingParams:
        """Return the parameters with a distinct seed: equal seeds draw the same random numbers at each position."""
        return sampling if sampling.seed is None else replace(sampling, seed=derived_seed(sampling.seed, *place))
