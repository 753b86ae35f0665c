"""
Converts messages to token ids without tokenizing sampled responses again.

Text does not determine tokens: a model may sample a word as other tokens than the tokenizer produces, and a template
may change a response when it renders it again. A prompt with tokens other than the sampled ones would be off-policy,
and its prefix would not be cached. A later turn therefore starts with the exact tokens of the earlier turns, and only
the text after the last known response is tokenized.
"""

import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from tlt_common.domain.bounds import INT32_MAX, require_ids
from tlt_common.errors import InvalidRequestError
from tlt_common.telemetry import metrics
from tlt_gateway.http.openai.conversation import ConversationBody, Message
from tlt_gateway.http.openai.turns import Turn, TurnKey, Turns, keys_of
from tlt_gateway.http.text.template import ChatTemplate
from tlt_gateway.http.text.text import Text


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """A response whose tokens are known."""

    place: int
    """Index of its message."""
    turn: Turn
    """The conversation up to the end of the response."""
    field: str = ""
    """The request field that supplied the tokens; empty if they were remembered."""


class Prompting:
    """
    Args:
        text: The tokenizer.
        template: The model's chat template.
        turns: Responses sampled by this gateway.
        end_tokens: The model's end tokens, which end responses whose tokens a request supplies.
    """

    def __init__(self, text: Text, template: ChatTemplate, turns: Turns, end_tokens: Collection[int] = ()) -> None:
        self._text = text
        self._template = template
        self._turns = turns
        self._end_tokens = end_tokens

    async def prompt_ids(
        self, body: ConversationBody, *, owner: str, session: str, given: list[int] | None = None
    ) -> list[int]:
        """
        Return the tokens of a conversation: those supplied in the request, otherwise those of its messages.

        Raises:
            InvalidRequestError: There is no tokenizer or template, or the template refuses the messages; or supplied
                tokens do not begin with those of a message.
        """
        body.require_valid()
        if given is not None:
            return self._whole(body, given)
        keys = list(keys_of(body, body.messages, owner=owner, session=session))
        known = self._given(body) or self._remembered(body, keys)
        if known is not None:
            after = await self._after(body, known)
            if after is not None:
                metrics.GATEWAY_CHAT_PROMPTS.labels(history="spliced").inc()
                return [*self._kept(body, known), *after]
        metrics.GATEWAY_CHAT_PROMPTS.labels(history=self._lost(body, keys)).inc()
        return await self._encoded(await self._rendered(body, body.messages))

    def _whole(self, body: ConversationBody, given: list[int]) -> list[int]:
        """Return a prompt supplied as tokens, along with the messages they represent."""
        field = "input_ids"
        if not given:
            raise InvalidRequestError(f"{field} is empty; accepted: at least one token", field=field)
        require_ids(field, given, INT32_MAX)
        known = self._given(body)
        if known is not None and given[: len(known.turn.token_ids)] != list(known.turn.token_ids):
            raise InvalidRequestError(
                f"{field} does not begin with the tokens of {known.field}; accepted: one of them", field=field
            )
        metrics.GATEWAY_CHAT_PROMPTS.labels(history="spliced").inc()
        return given

    @staticmethod
    def _kept(body: ConversationBody, known: _Known) -> Sequence[int]:
        """Return the tokens of a known response, without its end token if it is to be continued."""
        is_continued = body.continue_final_message and known.place == len(body.messages) - 1
        return known.turn.token_ids[:-1] if is_continued and known.turn.ended else known.turn.token_ids

    def remember(self, body: ConversationBody, answer: Message, turn: Turn, *, owner: str, session: str) -> None:
        """Remember a conversation up to the end of its response."""
        messages = [*body.messages, answer]
        if body.continue_final_message:
            begun = messages.pop(-2)
            messages[-1] = answer.model_copy(update={"content": begun.text + answer.text})
        *before, key = keys_of(body, messages, owner=owner, session=session)
        forgotten = self._turns.forgotten
        self._turns.add(key, turn, before=before)
        metrics.GATEWAY_CHAT_BYTES.set(self._turns.bytes)
        metrics.GATEWAY_FORGOTTEN_CONVERSATIONS.inc(self._turns.forgotten - forgotten)

    def finish(self, owner: str, session: str) -> int:
        """Forget the turns of a session; return their number."""
        turns = self._turns.finish(owner, session)
        metrics.GATEWAY_CHAT_BYTES.set(self._turns.bytes)
        return turns

    async def _after(self, body: ConversationBody, known: _Known) -> list[int] | None:
        """
        Return the tokens that follow a known response, or None if the template does not show where it ends.

        Raises:
            InvalidRequestError: As for `prompt_ids`, or the template does not show where a response supplied by the
                request ends.
        """
        if body.continue_final_message and known.place == len(body.messages) - 1:
            return []
        # No text contains it, and no caller can know it.
        mark = f"\ue000{secrets.token_hex(8)}\ue000"
        marked = Message(role="assistant", content=mark)
        messages = [*body.messages[: known.place], marked, *body.messages[known.place + 1 :]]
        try:
            _, found, after = (await self._rendered(body, messages)).partition(mark)
        except InvalidRequestError:
            if known.field:
                raise
            return None
        if found:
            last = self._text.decoded(known.turn.token_ids[-1:], skip_special_tokens=False) if known.turn.ended else ""
            # The token that ended the response is the first of what the template writes after it.
            return await self._encoded(after.removeprefix(last) if last else after)
        if known.field:
            raise InvalidRequestError(
                f"{known.field}: the chat template leaves out the response, so nothing can follow it; accepted: "
                "messages without token ids",
                field=known.field,
            )
        return None

    def _lost(self, body: ConversationBody, keys: Sequence[TurnKey]) -> str:
        """Return why the tokens of earlier responses differ from the sampled ones."""
        if all(message.role != "assistant" for message in body.messages):
            return "none"
        return "forgotten" if any(map(self._turns.is_forgotten, keys)) else "tokenized"

    def _remembered(self, body: ConversationBody, keys: Sequence[TurnKey]) -> _Known | None:
        for place in reversed(range(len(keys))):
            if body.messages[place].role == "assistant" and (found := self._turns.get(keys[place])) is not None:
                return _Known(place=place, turn=found)
        return None

    def _given(self, body: ConversationBody) -> _Known | None:
        """Return the last response whose tokens the request supplies."""
        known = _given(body)
        if known is None:
            return None
        last = known.turn.token_ids[-1]
        return replace(known, turn=replace(known.turn, ended=last in self._end_tokens or self._text.is_special(last)))

    async def _rendered(self, body: ConversationBody, messages: list[Message]) -> str:
        return await self._template.rendered(
            [message.for_template() for message in messages],
            tools=body.tools,
            documents=body.documents,
            add_generation_prompt=body.opens_response,
            continues=bool(body.continue_final_message),
            source=body.chat_template,
            variables=body.chat_template_kwargs,
        )

    async def _encoded(self, rendered: str) -> list[int]:
        (found,) = await self._text.encoded([rendered], field="messages", special_tokens=False)
        return found


def _given(body: ConversationBody) -> _Known | None:
    """Return the last response whose tokens the request supplies."""
    places = [place for place, message in enumerate(body.messages) if message.role == "assistant"]
    if body.required_prefix_token_ids is not None:
        field = "required_prefix_token_ids"
        if not places:
            raise InvalidRequestError(f"{field} requires an assistant message that ends with these tokens", field=field)
        return _checked(places[-1], body.required_prefix_token_ids, field)
    found = None
    for place, message in enumerate(body.messages):
        if (ids := message.sampled(place)) is not None:
            found = _checked(place, ids, f"messages[{place}].generation_token_ids")
    return found


def _checked(place: int, token_ids: list[int], field: str) -> _Known:
    """
    Check the tokens of a request before they are decoded. Whether the model has them is checked with the prompt.

    Raises:
        InvalidRequestError: There are no tokens, or one is invalid.
    """
    if not token_ids:
        raise InvalidRequestError(f"{field} is empty; accepted: at least one token", field=field)
    require_ids(field, token_ids, INT32_MAX)
    return _Known(place=place, turn=Turn(token_ids=token_ids, ended=False), field=field)
