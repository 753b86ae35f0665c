"""
Messages to token ids, without tokenising again what was sampled.

Text does not determine tokens: a model may sample a word in other pieces than the tokenizer cuts it into, and a
template may change a response when it renders it again. A prompt with other tokens than were sampled would be off
policy, and its prefix would not be cached. So a later turn begins with the very tokens of the turns before, and only
what follows the last known response is tokenised.
"""

import asyncio
from dataclasses import dataclass

from tlt_common.domain.bounds import INT32_MAX, require_ids
from tlt_common.errors import InvalidRequestError
from tlt_common.telemetry import metrics
from tlt_gateway.http.openai.conversation import Conversation, Message
from tlt_gateway.http.openai.turns import Turns, keys_of
from tlt_gateway.http.template import ChatTemplate
from tlt_gateway.http.text import Text

MARK = "\ue000response\ue000"
"""Stands for a response while what follows it is rendered; of characters that no text has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """A response whose tokens are known."""

    place: int
    """Index of its message."""
    token_ids: list[int]
    """The conversation up to its end."""
    field: str = ""
    """The field that gave them; empty if they are remembered."""


class Prompting:
    """
    Args:
        text: The tokenizer.
        template: The model's chat template.
        turns: Responses that were sampled here.
    """

    def __init__(self, text: Text, template: ChatTemplate, turns: Turns) -> None:
        self._text = text
        self._template = template
        self._turns = turns

    async def prompt_ids(self, body: Conversation, *, owner: str, session: str) -> list[int]:
        """
        Return the tokens of a conversation.

        Raises:
            InvalidRequestError: There is no tokenizer or template, or the template refuses the messages.
        """
        body.require_valid()
        known = _given(body) or self._remembered(body, owner, session)
        if known is not None:
            after = await self._after(body, known)
            if after is not None:
                metrics.GATEWAY_CHAT_PROMPTS.labels(history="spliced").inc()
                return known.token_ids + after
        is_new = all(message.role != "assistant" for message in body.messages)
        metrics.GATEWAY_CHAT_PROMPTS.labels(history="none" if is_new else "tokenized").inc()
        return await self._encoded(await self._rendered(body, body.messages))

    def remember(self, body: Conversation, answer: Message, token_ids: list[int], *, owner: str, session: str) -> None:
        """Remember the tokens of a conversation up to the end of its answer."""
        *_, key = keys_of(body, [*body.messages, answer], owner=owner, session=session)
        self._turns.add(key, token_ids)

    def finish(self, owner: str, session: str) -> int:
        """Forget the turns of a session; return their number."""
        return self._turns.finish(owner, session)

    async def _after(self, body: Conversation, known: _Known) -> list[int] | None:
        """
        Return the tokens that follow a known response; None if the template does not show where it ends.

        Raises:
            InvalidRequestError: As for `prompt_ids`, or it does not show where a response ends that the request gives.
        """
        marked = Message(role="assistant", content=MARK)
        messages = [*body.messages[: known.place], marked, *body.messages[known.place + 1 :]]
        try:
            _, found, after = (await self._rendered(body, messages)).partition(MARK)
        except InvalidRequestError:
            if known.field:
                raise
            return None
        if found:
            last = self._text.decoded(known.token_ids[-1:], skip_special_tokens=False)
            # The token that ended the response is the first of what the template writes after it.
            return await self._encoded(after.removeprefix(last) if last else after)
        if known.field:
            raise InvalidRequestError(
                f"{known.field}: the chat template leaves out the response, so nothing can follow it; accepted: "
                "messages without token ids",
                field=known.field,
            )
        return None

    def _remembered(self, body: Conversation, owner: str, session: str) -> _Known | None:
        keys = list(keys_of(body, body.messages, owner=owner, session=session))
        for place in reversed(range(len(keys))):
            if body.messages[place].role == "assistant" and (found := self._turns.get(keys[place])) is not None:
                return _Known(place=place, token_ids=found)
        return None

    async def _rendered(self, body: Conversation, messages: list[Message]) -> str:
        # In a thread: templates are programs, and the event loop streams tokens to others.
        return await asyncio.to_thread(
            self._template.rendered,
            [message.for_template() for message in messages],
            tools=body.tools,
            add_generation_prompt=body.add_generation_prompt,
            source=body.chat_template,
            variables=body.chat_template_kwargs,
        )

    async def _encoded(self, rendered: str) -> list[int]:
        (found,) = await self._text.encoded([rendered], field="messages", special_tokens=False)
        return found


def _given(body: Conversation) -> _Known | None:
    """Return the last response whose tokens the request gives."""
    places = [place for place, message in enumerate(body.messages) if message.role == "assistant"]
    if body.required_prefix_token_ids is not None:
        field = "required_prefix_token_ids"
        if not places:
            raise InvalidRequestError(
                f"{field}; accepted: with a message of the assistant, whose end it is", field=field
            )
        return _checked(_Known(place=places[-1], token_ids=body.required_prefix_token_ids, field=field))
    found = None
    for place, message in enumerate(body.messages):
        if (ids := message.sampled(place)) is not None:
            found = _checked(_Known(place=place, token_ids=ids, field=f"messages[{place}].generation_token_ids"))
    return found


def _checked(known: _Known) -> _Known:
    """
    Check tokens of a request before they are decoded; whether the model has them is checked with the prompt.

    Raises:
        InvalidRequestError: There are none, or one is no token.
    """
    if not known.token_ids:
        raise InvalidRequestError(f"{known.field} is empty; accepted: at least one token", field=known.field)
    require_ids(known.field, known.token_ids, INT32_MAX)
    return known
