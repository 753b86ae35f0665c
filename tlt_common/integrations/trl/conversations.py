"""Which of a trainer's earlier responses its prompts continue, so that turns of a conversation share a session."""

from collections.abc import Sequence
from dataclasses import dataclass

from tlt_common.client import TokenChunk
from tlt_common.domain.request_ids import new_request_id


@dataclass(frozen=True, slots=True)
class _Turn:
    session_id: str
    token_ids: list[int]
    """Prompt and response."""

    def is_continued_by(self, prompt_ids: Sequence[int]) -> bool:
        count = len(self.token_ids)
        return len(prompt_ids) > count and list(prompt_ids[:count]) == self.token_ids


class Conversations:
    """
    Sessions of the conversations in a trainer's latest rollout.

    TRL's tool loop appends tokens to those of a prompt and its response, keeps the order of conversations, and drops
    those that have ended. One that is not recognized begins a new session, which costs a prefill.
    """

    def __init__(self) -> None:
        self._turns: list[_Turn] = []

    def sessions(self, prompts: Sequence[Sequence[int]]) -> list[str]:
        """Return a session for each prompt: that of the turn it continues, or a new one."""
        earlier = iter(self._turns)
        continued = (next((turn for turn in earlier if turn.is_continued_by(prompt)), None) for prompt in prompts)
        return [turn.session_id if turn else new_request_id() for turn in continued]

    def answered(
        self, prompts: Sequence[Sequence[int]], sessions: Sequence[str], responses: Sequence[TokenChunk]
    ) -> None:
        """Remember the turns that have just ended, in place of all earlier ones."""
        self._turns = [
            _Turn(session, [*prompt, *response.token_ids])
            for prompt, session, response in zip(prompts, sessions, responses, strict=True)
        ]
