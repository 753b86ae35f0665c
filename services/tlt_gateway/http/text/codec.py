"""The model's text codec: tokenizer, chat template and tool-call parser."""

from dataclasses import dataclass, field
from pathlib import Path

from tlt_common.errors import ConfigError
from tlt_common.text.end_tokens import end_tokens
from tlt_gateway.config import HttpSettings
from tlt_gateway.http.text.template import ChatTemplate, load_template
from tlt_gateway.http.text.text import Text, load_text
from tlt_gateway.http.text.tools import ToolParser


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCodec:
    """The codec of the served model. By default only token ids are supported."""

    text: Text = field(default_factory=Text)
    template: ChatTemplate = field(default_factory=ChatTemplate)
    tools: ToolParser = field(default_factory=ToolParser)
    end_tokens: frozenset[int] = frozenset()

    def close(self) -> None:
        """End the processes that render templates and parse tool calls."""
        self.template.close()
        self.tools.close()


def load_codec(settings: HttpSettings, *, trusted: bool) -> TextCodec:
    """
    Load the tokenizer, template and parser that the settings name.

    Args:
        settings: The settings.
        trusted: Whether requests may bring templates if the settings leave it open.

    Raises:
        ConfigError: A file is missing or damaged, or SGLang has no such parser.
    """
    accepts = trusted if settings.request_templates is None else settings.request_templates
    return TextCodec(
        text=load_text(settings.tokenizer),
        template=load_template(settings.tokenizer, accepts_others=accepts),
        tools=ToolParser(settings.tool_parser),
        end_tokens=_end_tokens(settings.tokenizer),
    )


def _end_tokens(directory: Path | None) -> frozenset[int]:
    if directory is None:
        return frozenset()
    try:
        return end_tokens(directory)
    except (OSError, ValueError) as error:
        raise ConfigError(f"http.tokenizer: {directory}: {error}", field="http.tokenizer") from error
