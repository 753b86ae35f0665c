"""What turns text into tokens and messages into text: tokenizer, chat template, and parser of tool calls."""

from dataclasses import dataclass, field

from tlt_gateway.config import HttpSettings
from tlt_gateway.http.template import ChatTemplate, load_template
from tlt_gateway.http.text import Text, load_text
from tlt_gateway.http.tools import ToolParser


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """The model's; by default there are only token ids."""

    text: Text = field(default_factory=Text)
    template: ChatTemplate = field(default_factory=ChatTemplate)
    tools: ToolParser = field(default_factory=ToolParser)


def load_language(settings: HttpSettings) -> Language:
    """
    Load what the settings name.

    Raises:
        ConfigError: A file is missing or damaged, or SGLang has no such parser.
    """
    return Language(
        text=load_text(settings.tokenizer),
        template=load_template(settings.tokenizer, accepts_others=settings.request_templates),
        tools=ToolParser(settings.tool_parser),
    )
