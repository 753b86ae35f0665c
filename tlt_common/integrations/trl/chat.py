"""Converts prompts, tool results and responses with a tokenizer's chat template."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from tlt_common.errors import InvalidRequestError
from tlt_common.integrations.trl.installed import parsed_response

Message: TypeAlias = dict[str, Any]
Tool: TypeAlias = Callable[..., Any]


def templated(tokenizer: Any, conversation: Any, *, template: str | None, **options: Any) -> Any:
    """
    Return the token ids of a conversation, or of each of several.

    Args:
        tokenizer: The policy's tokenizer or processor.
        conversation: Messages, or a list of conversations.
        template: Chat template; None uses the tokenizer's own.
        options: Further arguments of the template.
    """
    return tokenizer.apply_chat_template(
        conversation, chat_template=template, tokenize=True, return_dict=True, **options
    )["input_ids"]


class ChatTokenizer:
    """
    A tokenizer with its chat template.

    Args:
        tokenizer: Tokenizer of the policy.
        uses_tools: Whether responses may call tools.
        options: Further arguments of the template.

    Raises:
        InvalidRequestError: Responses may call tools, which the template does not render.
    """

    def __init__(self, tokenizer: Any, *, uses_tools: bool = False, options: Mapping[str, Any] | None = None) -> None:
        self._tokenizer, self._options = tokenizer, dict(options or {})
        self._template: str | None = None
        if uses_tools:
            self._prepare()

    def prompt_ids(self, prompt: Any, tools: Sequence[Tool] = ()) -> list[int]:
        """Tokenize a prompt, text or a conversation, as TRL does."""
        if isinstance(prompt, str):
            ids: list[int] = self._tokenizer(prompt)["input_ids"]
            return ids
        return self._rendered(prompt, tools=list(tools) or None, add_generation_prompt=True)

    def text(self, token_ids: Sequence[int]) -> str:
        """Return the text of a response."""
        text: str = self._tokenizer.decode(list(token_ids), skip_special_tokens=True)
        return text

    def message(self, token_ids: Sequence[int], *, context_ids: Sequence[int], tools: Sequence[Tool]) -> Message:
        """Return a response as a message, with the tools that it calls."""
        return parsed_response(self._tokenizer, list(token_ids), prefix=list(context_ids), tools=list(tools) or None)

    def results_ids(self, results: Sequence[Message]) -> list[int]:
        """
        Return the tokens from the end of a response that calls tools to the beginning of the next response.

        The conversation so far is not tokenized again, which might change sampled tokens.

        Raises:
            InvalidRequestError: The template renders a call differently once its result follows.
        """
        call = {"type": "function", "function": {"name": results[0]["name"], "arguments": {}}}
        asked: list[Message] = [
            {"role": "user", "content": "."},
            {"role": "assistant", "content": "", "tool_calls": [call]},
        ]
        before = self._rendered(asked)
        after = self._rendered([*asked, *results], add_generation_prompt=True)
        end = self._tokenizer.eos_token_id
        # A response ends with its end token. What the template puts behind it belongs to what follows.
        length = len(before) - before[::-1].index(end) if end in before else len(before)
        if after[:length] != before[:length]:
            raise InvalidRequestError(
                "the chat template renders a tool call differently once its result follows; accepted: a template that "
                "preserves prefixes",
                field="tokenizer",
            )
        return after[length:]

    def _rendered(self, messages: Sequence[Message], **options: Any) -> list[int]:
        ids: list[int] = templated(self._tokenizer, messages, template=self._template, **options, **self._options)
        return ids

    def _prepare(self) -> None:
        """Make the tokenizer render and parse tool calls."""
        from trl.chat_template_utils import (
            add_response_schema,
            get_training_chat_template,
            is_chat_template_prefix_preserving,
            supports_tool_calling,
        )

        if not supports_tool_calling(self._tokenizer):
            raise InvalidRequestError(
                "the chat template does not render tool calls and their results; accepted: a tokenizer whose template "
                "does",
                field="tokenizer",
            )
        known = (getattr(self._tokenizer, name, None) for name in ("response_template", "response_schema"))
        if all(one is None for one in known):
            self._tokenizer = add_response_schema(self._tokenizer)
        if not is_chat_template_prefix_preserving(self._tokenizer):
            self._template = get_training_chat_template(self._tokenizer)
