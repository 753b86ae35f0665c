"""The model's chat template, which converts messages to text. `rendering` runs it in a separate process."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pydantic_core

from tlt_common.errors import ConfigError, InvalidRequestError
from tlt_common.text.special_tokens import CONFIG, SpecialTokens, object_of
from tlt_gateway.http.resident.child import RefusedError
from tlt_gateway.http.resident.process import OverrunError, Resident

FILE, DIRECTORY = "chat_template.jinja", "additional_chat_templates"
DEFAULT, WITH_TOOLS = "default", "tool_use"
MAX_CHARACTERS = 2**17
"""Longest template that a request may bring; the longest published ones have a sixth of it."""
OWN = ("messages", "tools", "documents", "add_generation_prompt")
"""Variables that the request has fields for."""


class ChatTemplate:
    """
    Args:
        sources: The model's templates by name; a single template is named default.
        tokens: Special tokens by name, such as eos_token, which templates use.
        accepts_others: Whether requests may bring their own.
    """

    def __init__(
        self,
        sources: Mapping[str, str] | str | None = None,
        tokens: Mapping[str, str] | None = None,
        *,
        accepts_others: bool = True,
    ) -> None:
        self._sources = {DEFAULT: sources} if isinstance(sources, str) else dict(sources or {})
        self._accepts_others = accepts_others
        self._tokens = dict(tokens or {})
        # The model's template is slow only for a caller's messages, a request's can be slow by itself: callers that
        # bring none do not wait for those that do.
        self._own, self._others = (Resident("tlt_gateway.http.text.rendering") for _ in range(2))

    def close(self) -> None:
        """End the processes. Idempotent."""
        self._own.close()
        self._others.close()

    async def rendered(
        self,
        messages: list[dict[str, Any]],
        *,
        tools: list[dict[str, Any]] | None = None,
        documents: list[dict[str, Any]] | None = None,
        add_generation_prompt: bool,
        continues: bool = False,
        source: str | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """
        Render messages to text.

        Args:
            messages: Role and content of each, and other fields that templates read. A content is text or a list of
                parts; a template that does not read parts gets them as text.
            tools: The functions that the model may call.
            documents: Documents for retrieval-augmented responses.
            add_generation_prompt: End with the start of a response.
            continues: End within the last message.
            source: A template to use instead of the model's, or the name of one of the model's.
            variables: Further variables of the template.

        Raises:
            InvalidRequestError: There is no template, it is malformed, it refuses the messages, or it takes too long.
        """
        if taken := [name for name in OWN if name in (variables or {})]:
            field = f"chat_template_kwargs.{taken[0]}"
            raise InvalidRequestError(
                f"{field} is reserved, since it is a field of the request; use another name", field=field
            )
        chosen = self._chosen(source, has_tools=bool(tools))
        resident = self._own if chosen in self._sources.values() else self._others
        content = {
            **self._tokens,
            **(variables or {}),
            "source": chosen,
            "messages": messages,
            "tools": tools,
            "documents": documents,
            "add_generation_prompt": add_generation_prompt,
            "continues": continues,
        }
        try:
            return (await resident.ask(lambda: _encoded(content))).decode()
        except (RefusedError, OverrunError) as error:
            if isinstance(error, RefusedError) and error.field:
                raise InvalidRequestError(error.message, field=error.field) from error
            raise InvalidRequestError(
                f"the chat template cannot render the messages: {error}", field="messages"
            ) from error

    def _chosen(self, source: str | None, *, has_tools: bool) -> str:
        """
        Return the template to use, by the rules of transformers.

        Raises:
            InvalidRequestError: There is no template, or requests may not bring one.
        """
        if source is None:
            found = self._sources.get(WITH_TOOLS if has_tools and WITH_TOOLS in self._sources else DEFAULT)
            if found is None:
                names = (
                    f"chat_template with one of the names {sorted(self._sources)}"
                    if self._sources
                    else (f"chat_template in the request, or a directory with {FILE} as http.tokenizer")
                )
                raise InvalidRequestError(
                    f"the model has no default chat template; accepted: {names}", field="chat_template"
                )
            return found
        if source in self._sources:
            return self._sources[source]
        if not self._accepts_others:
            raise InvalidRequestError(
                "chat_template is disabled here (http.request_templates); omit it to use the model's own"
                + (f", or name one of the model's: {sorted(self._sources)}" if self._sources else ""),
                field="chat_template",
            )
        if len(source) > MAX_CHARACTERS:
            raise InvalidRequestError(
                f"chat_template has {len(source)} characters; the maximum is {MAX_CHARACTERS}", field="chat_template"
            )
        return source


def _encoded(content: dict[str, Any]) -> bytes:
    try:
        return pydantic_core.to_json(content)
    except ValueError as error:
        raise RefusedError(f"its input is nested too deeply, or is not Unicode: {error}") from error


def load_template(directory: Path | None, *, accepts_others: bool = True) -> ChatTemplate:
    """
    Load the chat templates of a model directory. A directory without templates renders only those of requests.

    Raises:
        ConfigError: A template file is malformed.
    """
    if directory is None:
        return ChatTemplate(accepts_others=accepts_others)
    try:
        return ChatTemplate(sources_of(directory), SpecialTokens.of(directory).named, accepts_others=accepts_others)
    except (OSError, ValueError, LookupError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"http.tokenizer: the chat template in {directory} cannot be read: {error!r}", field="http.tokenizer"
        ) from error


def sources_of(directory: Path) -> dict[str, str]:
    """Return the templates of a model directory by name. Template files take precedence over tokenizer_config.json."""
    files = {DEFAULT: directory / FILE} if (directory / FILE).is_file() else {}
    files |= {path.stem: path for path in sorted((directory / DIRECTORY).glob("*.jinja"))}
    if files:
        return {name: path.read_text(encoding="utf-8") for name, path in files.items()}
    found = object_of(directory / CONFIG).get("chat_template")
    if isinstance(found, list):
        return {str(one["name"]): str(one["template"]) for one in found}
    return {} if found is None else {DEFAULT: str(found)}
