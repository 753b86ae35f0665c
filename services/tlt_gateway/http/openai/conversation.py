"""Fields shared by calls that take messages: messages, tools, template, named as in OpenAI's and vLLM's protocols."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from tlt_common.documents import json_of
from tlt_common.errors import InvalidRequestError
from tlt_gateway.http.bodies.body import Body


class ContentPart(Body):
    """A part of a message's content."""

    ignores_null: ClassVar[bool] = True

    path: ClassVar[str] = "messages.content."

    type: Literal["text"]
    text: str


class Called(Body):
    """The function of a tool call."""

    ignores_null: ClassVar[bool] = True

    path: ClassVar[str] = "messages.tool_calls.function."

    name: str
    arguments: str | dict[str, Any] = "{}"


class CalledTool(Body):
    """A tool call of an earlier turn."""

    path: ClassVar[str] = "messages.tool_calls."
    ignores_null: ClassVar[bool] = True
    unsupported: ClassVar[Mapping[str, tuple[Any, ...]]] = {"index": (None, *range(64))}  # streams have it

    id: str | None = None
    type: Literal["function"] = "function"
    function: Called


class Message(Body):
    """A message. NeMo-Gym adds the sampled token ids and their log-probabilities to assistants' messages."""

    path: ClassVar[str] = "messages."
    ignores_null: ClassVar[bool] = True
    unsupported: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        **dict.fromkeys(("refusal", "audio", "function_call"), (None,)),
        "annotations": (None, []),
    }

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[ContentPart] | None = None
    name: str | None = None
    tool_calls: list[CalledTool] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    """vLLM's name for `reasoning_content`."""
    prompt_token_ids: list[int] | None = None
    generation_token_ids: list[int] | None = None
    generation_log_probs: list[float] | None = None

    @model_validator(mode="after")
    def _with_one_reasoning(self) -> Self:
        if self.reasoning is not None:
            if self.reasoning_content not in {None, self.reasoning}:
                raise InvalidRequestError(
                    "messages.reasoning differs from messages.reasoning_content; accepted: one of them",
                    field="messages.reasoning",
                )
            self.reasoning_content, self.reasoning = self.reasoning, None
        return self

    @property
    def text(self) -> str:
        """The content as text: parts with spaces between them, as in SGLang."""
        if isinstance(self.content, list):
            return " ".join(part.text for part in self.content)
        return self.content or ""

    def sampled(self, place: int) -> list[int] | None:
        """
        Return the tokens of the conversation up to the end of this message, if the message has them.

        Raises:
            InvalidRequestError: It has only some of the required fields.
        """
        given = (self.prompt_token_ids, self.generation_token_ids, self.generation_log_probs)
        if given == (None, None, None):
            return None
        if self.prompt_token_ids is None or self.generation_token_ids is None or self.role != "assistant":
            raise InvalidRequestError(
                f"messages[{place}].generation_token_ids requires prompt_token_ids and the role assistant",
                field=f"messages[{place}].generation_token_ids",
            )
        if self.generation_log_probs is not None and len(self.generation_log_probs) != len(self.generation_token_ids):
            raise InvalidRequestError(
                f"messages[{place}].generation_log_probs has {len(self.generation_log_probs)} entries; accepted: "
                f"{len(self.generation_token_ids)}, one per generated token",
                field=f"messages[{place}].generation_log_probs",
            )
        return [*self.prompt_token_ids, *self.generation_token_ids]

    def for_template(self) -> dict[str, Any]:
        """Return the message for a template, with tools' arguments as values and content parts unchanged."""
        parts = [part.model_dump() for part in self.content] if isinstance(self.content, list) else None
        found: dict[str, Any] = {"role": self.role, "content": self.text if parts is None else parts}
        for name in ("name", "tool_call_id", "reasoning_content"):
            if (value := getattr(self, name)) is not None:
                found[name] = value
        if self.tool_calls:
            found["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.function.name, "arguments": arguments_of(call.function.arguments)},
                }
                for call in self.tool_calls
            ]
        return found


def arguments_of(arguments: str | dict[str, Any]) -> Any:
    """Return a tool call's arguments as a value. Text that is not valid JSON, which a model may write, stays text."""
    if isinstance(arguments, dict):
        return arguments
    try:
        return json_of(arguments.encode())
    except ValueError:
        return arguments


class ConversationBody(Body):
    """Fields of a call that takes messages."""

    model: str | None = None
    messages: list[Message] = Field(default_factory=list)
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    chat_template: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    documents: list[dict[str, Any]] | None = None
    add_generation_prompt: bool | None = True
    continue_final_message: bool | None = False
    required_prefix_token_ids: list[int] | None = None

    @property
    def texts(self) -> Iterator[str]:
        """The messages' texts."""
        return (message.text for message in self.messages)

    @property
    def parses_tools(self) -> bool:
        """Whether responses are searched for tool calls."""
        return bool(self.tools) and self.tool_choice != "none"

    @property
    def opens_response(self) -> bool:
        """Whether the prompt ends with the start of a response rather than within the last message."""
        return self.add_generation_prompt is not False and not self.continue_final_message

    def require_valid(self) -> None:
        """
        Check the messages and tools.

        Raises:
            InvalidRequestError: There are no messages, the last one cannot be continued, a tool call is forced (which
                requires a grammar), or a tool is not a function.
        """
        if not self.messages:
            raise InvalidRequestError("messages is empty; accepted: at least one message", field="messages")
        if self.continue_final_message:
            self._require_continuable()
        if isinstance(self.tool_choice, dict) or self.tool_choice not in {None, "none", "auto"}:
            raise InvalidRequestError(
                f"tool_choice is {self.tool_choice!r:.80}; accepted: 'none', 'auto'; tool calls cannot be forced",
                field="tool_choice",
            )
        for place, tool in enumerate(self.tools or ()):
            function = tool.get("function")
            if tool.get("type") != "function" or not isinstance(function, dict) or not function.get("name"):
                raise InvalidRequestError(
                    f"tools[{place}] is {tool!r:.80}; accepted: type function, and a function with a name",
                    field=f"tools[{place}]",
                )
            if function.get("strict"):
                raise InvalidRequestError(
                    f"tools[{place}].function.strict; accepted: false; tool calls cannot be forced into a schema",
                    field=f"tools[{place}].function.strict",
                )

    def _require_continuable(self) -> None:
        last = self.messages[-1]
        if self.add_generation_prompt and "add_generation_prompt" in self.model_fields_set:
            accepted = "without add_generation_prompt"
        elif last.role != "assistant" or not last.text:
            accepted = "with text of the assistant in the last message"
        else:
            return
        raise InvalidRequestError(f"continue_final_message; accepted: {accepted}", field="continue_final_message")
