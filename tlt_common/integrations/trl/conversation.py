"""Token-level conversations of the policy with tools, and sessions for prompts that continue earlier ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from tlt_common.client import TokenChunk
from tlt_common.domain.request_ids import new_request_id
from tlt_common.integrations.trl.calls import result_of
from tlt_common.integrations.trl.chat import ChatTokenizer, Message, Tool
from tlt_common.integrations.trl.episode import Episode


class PlayedConversation:
    """
    A conversation in progress.

    Args:
        prompt: Its first messages.
        chat: The tokenizer and its template.
        tools: Tools that responses may call.

    Attributes:
        token_ids: Tokens after the prompt: sampled ones and those of tool results.
    """

    def __init__(self, prompt: list[Message], chat: ChatTokenizer, tools: Sequence[Tool]) -> None:
        self._chat, self._tools = chat, tools
        self._by_name = {getattr(tool, "__name__", ""): tool for tool in tools}
        self._prompt, self._prompt_ids = prompt, chat.prompt_ids(prompt, tools)
        self._messages: list[Message] = []
        self.token_ids: list[int] = []
        self._logprobs: list[float] = []
        self._sampled: list[bool] = []
        self._versions: list[int] = []
        self._calls = self._failures = 0

    @property
    def context_ids(self) -> list[int]:
        """The prompt of the next response."""
        return [*self._prompt_ids, *self.token_ids]

    @property
    def begun_version(self) -> int | None:
        """Policy version of the first sampled token."""
        return self._versions[0] if self._versions else None

    def add_response(self, response: TokenChunk) -> list[Message]:
        """Add a response; return its tool calls."""
        message = self._chat.message(response.token_ids, context_ids=self.context_ids, tools=self._tools)
        self._messages.append(message)
        self._extend(response.token_ids, response.logprobs, sampled=True)
        self._versions.extend(response.policy_versions)
        return list(message.get("tool_calls") or ())

    async def add_results(self, calls: Sequence[Message]) -> None:
        """Call tools and add their results."""
        found = [await called(call, self._by_name) for call in calls]
        self._calls += len(found)
        self._failures += sum(not succeeded for _, succeeded in found)
        results = [message for message, _ in found]
        ids = self._chat.results_ids(results)
        self._messages += results
        self._extend(ids, [0.0] * len(ids), sampled=False)

    def drop_results(self) -> None:
        """Remove results at the end if they leave no room for a response."""
        while self._messages[-1]["role"] == "tool":
            self._messages.pop()
        while not self._sampled[-1]:
            for column in (self.token_ids, self._logprobs, self._sampled):
                column.pop()

    def episode(self) -> Episode:
        """Return the completed conversation."""
        return Episode(
            prompt=self._prompt,
            prompt_ids=self._prompt_ids,
            completion=self._messages,
            token_ids=self.token_ids,
            logprobs=self._logprobs,
            sampled=self._sampled,
            oldest_version=min(self._versions),
            mean_version=fmean(self._versions),
            calls=self._calls,
            failures=self._failures,
        )

    def _extend(self, token_ids: Sequence[int], logprobs: Sequence[float], *, sampled: bool) -> None:
        self.token_ids.extend(token_ids)
        self._logprobs.extend(logprobs)
        self._sampled.extend([sampled] * len(token_ids))


@dataclass(frozen=True, slots=True)
class _Turn:
    session_id: str
    token_ids: list[int]
    """Tokens of prompt and response."""

    def is_continued_by(self, prompt_ids: Sequence[int]) -> bool:
        count = len(self.token_ids)
        return len(prompt_ids) > count and list(prompt_ids[:count]) == self.token_ids


class Conversations:
    """
    Sessions of the conversations in a trainer's latest rollout.

    TRL's tool loop appends tokens to those of a prompt and its response, keeps the order of conversations, and drops
    those that have ended. An unrecognized conversation starts a new session, which costs a prefill.
    """

    def __init__(self) -> None:
        self._turns: list[_Turn] = []

    def sessions(self, prompts: Sequence[Sequence[int]]) -> list[str]:
        """Return a session for each prompt: the session of the turn it continues, or a new one."""
        earlier = iter(self._turns)
        continued = (next((turn for turn in earlier if turn.is_continued_by(prompt)), None) for prompt in prompts)
        return [turn.session_id if turn else new_request_id() for turn in continued]

    def answered(
        self, prompts: Sequence[Sequence[int]], sessions: Sequence[str], responses: Sequence[TokenChunk]
    ) -> None:
        """Replace the remembered turns with those that have just ended."""
        self._turns = [
            _Turn(session, [*prompt, *response.token_ids])
            for prompt, session, response in zip(prompts, sessions, responses, strict=True)
        ]


async def called(call: Message, tools: Mapping[str, Tool]) -> tuple[Message, bool]:
    """
    Call a tool as a response requests; return its result as a message, and whether it succeeded.

    An error is also a result, from which the policy may learn.
    """
    function = call.get("function", call)
    name, arguments = function.get("name", ""), function.get("arguments") or {}
    result: Any
    try:
        if (tool := tools.get(name)) is None:
            raise LookupError(f"no tool {name!r}; there are: {', '.join(sorted(tools))}")  # noqa: TRY301 - a result
        result = await result_of(tool, **arguments)
    except Exception as error:  # noqa: BLE001 - a tool may raise anything
        return _message(name, {"error": str(error)}), False
    return _message(name, result), True


def _message(name: str, result: Any) -> Message:
    return {"role": "tool", "name": name, "content": str(result)}
