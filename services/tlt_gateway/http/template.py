"""The model's chat template, which turns messages into text. Templates run in a sandbox, as in transformers."""

import json
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Never

from jinja2 import Template, TemplateError, nodes
from jinja2.ext import Extension, LoopControlExtension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tlt_common.errors import ConfigError, InvalidRequestError

FILE, CONFIG = "chat_template.jinja", "tokenizer_config.json"
MAX_CHARACTERS = 2**17
"""Longest template that a request may bring; the longest published ones have a sixth of it."""
OWN = ("messages", "tools", "add_generation_prompt")
"""Variables that the request has fields for."""


class _GenerationTag(Extension):
    """`{% generation %}`, which marks responses for training, and prints what is inside."""

    tags = {"generation"}  # noqa: RUF012 - jinja's convention

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class ChatTemplate:
    """
    Args:
        source: The template; None if the model has none.
        tokens: Special tokens by name, such as eos_token, which templates use.
        accepts_others: Whether requests may bring their own.
    """

    def __init__(
        self, source: str | None = None, tokens: Mapping[str, str] | None = None, *, accepts_others: bool = True
    ) -> None:
        self._source = source
        self._accepts_others = accepts_others
        self._tokens = dict(tokens or {})

    def rendered(
        self,
        messages: list[dict[str, Any]],
        *,
        tools: list[dict[str, Any]] | None,
        add_generation_prompt: bool,
        source: str | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """
        Return the text of messages.

        Args:
            messages: Role and content of each, and what else templates read.
            tools: The functions that the model may call.
            add_generation_prompt: End with the beginning of a response.
            source: A template to use instead of the model's.
            variables: Further variables of the template.

        Raises:
            InvalidRequestError: There is no template, it is malformed, or it refuses the messages.
        """
        if source is not None and not self._accepts_others:
            raise InvalidRequestError(
                "chat_template is not accepted here (http.request_templates); accepted: none, for the model's own",
                field="chat_template",
            )
        chosen = self._source if source is None else source
        if chosen is None:
            raise InvalidRequestError(
                "the model has no chat template; accepted: chat_template in the request, or a directory with "
                f"{FILE} as http.tokenizer",
                field="chat_template",
            )
        if taken := [name for name in OWN if name in (variables or {})]:
            field = f"chat_template_kwargs.{taken[0]}"
            raise InvalidRequestError(f"{field} is a field of the request; accepted: other names", field=field)
        if len(chosen) > MAX_CHARACTERS:
            raise InvalidRequestError(
                f"chat_template has {len(chosen)} characters; accepted: at most {MAX_CHARACTERS}", field="chat_template"
            )
        given = {"messages": messages, "tools": tools, "add_generation_prompt": add_generation_prompt}
        try:
            template = _compiled(chosen)
        except TemplateError as error:
            raise InvalidRequestError(f"chat_template is malformed: {error}", field="chat_template") from error
        try:
            return template.render({**self._tokens, **(variables or {}), **given})
        except (TemplateError, TypeError, ValueError, LookupError, ArithmeticError, RecursionError) as error:
            raise InvalidRequestError(
                f"the chat template cannot render the messages: {type(error).__name__}: {error}", field="messages"
            ) from error


@lru_cache(maxsize=16)
def _compiled(source: str) -> Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, LoopControlExtension]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)  # noqa: DTZ005 - as transformers'
    return environment.from_string(source)


def _to_json(value: Any, *, ensure_ascii: bool = False, **options: Any) -> str:
    # Not jinja's own filter, which escapes HTML.
    return json.dumps(value, ensure_ascii=ensure_ascii, **options)


def _refuse(message: str) -> Never:
    raise TemplateError(message)


def load_template(directory: Path | None, *, accepts_others: bool = True) -> ChatTemplate:
    """
    Load the chat template of a model directory; one without a template serves those of requests.

    Raises:
        ConfigError: Its files are not what tokenizers have there.
    """
    if directory is None:
        return ChatTemplate(accepts_others=accepts_others)
    config: Any = {}
    try:
        if (directory / CONFIG).is_file():
            config = json.loads((directory / CONFIG).read_text())
        source = config.get("chat_template")
        if (directory / FILE).is_file():
            source = (directory / FILE).read_text()
        elif isinstance(source, list):
            source = {one["name"]: one["template"] for one in source}.get("default")
        named = {name: _token(value) for name, value in config.items() if name.endswith("_token") and value}
    except (OSError, ValueError, LookupError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"http.tokenizer: the chat template in {directory} cannot be read: {error!r}", field="http.tokenizer"
        ) from error
    return ChatTemplate(source, named, accepts_others=accepts_others)


def _token(value: Any) -> str:
    return str(value["content"] if isinstance(value, dict) else value)
