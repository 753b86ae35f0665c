"""Chat templates, against transformers."""

import json
from pathlib import Path
from typing import Any

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from tests.fakes.chat_model import END, TEMPLATE, write_chat_model
from tlt_common.errors import ConfigError, InvalidRequestError
from tlt_gateway.http.template import ChatTemplate, load_template

CALLED: list[dict[str, Any]] = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": {"ö": [1]}}}]
TALK: list[dict[str, Any]] = [
    {"role": "user", "content": "<Hi> & 'bye'"},
    {"role": "assistant", "content": "", "tool_calls": CALLED},
    {"role": "tool", "content": "5"},
]
TOOLS: list[dict[str, Any]] = [{"type": "function", "function": {"name": "f", "description": "ö < 1"}}]
OTHERS = (
    "{{ bos_token }}{% for m in messages %}\n {%- if loop.first %}{% continue %}{% endif %}\n{{ m }}\n{% endfor %}",
    "{% for m in messages if m.tool_calls %}{{ m.tool_calls | tojson(indent=2) }}{% break %}{% endfor %}{{ x }}",
)


@pytest.mark.parametrize("source", [TEMPLATE, *OTHERS])
@pytest.mark.parametrize("opens", [True, False])
def test_messages_are_rendered_as_transformers_renders_them(source: str, opens: bool) -> None:
    ours = ChatTemplate(source, {"bos_token": "<s>"}).rendered(
        TALK, tools=TOOLS, add_generation_prompt=opens, variables={"x": 5}
    )
    tools: list[Any] = TOOLS
    tokens: dict[str, Any] = {"bos_token": "<s>", "x": 5}
    theirs: Any = render_jinja_template([TALK], tools, chat_template=source, add_generation_prompt=opens, **tokens)
    assert ours == theirs[0][0]


def test_the_template_is_found_where_tokenizers_keep_it(tmp_path: Path) -> None:
    def shown(directory: Path) -> str:
        return load_template(directory).rendered([], tools=None, add_generation_prompt=True)

    write_chat_model(tmp_path / "file")
    assert shown(tmp_path / "file") == "<|im_start|>assistant\n"
    write_chat_model(tmp_path / "config", template=None)
    config = tmp_path / "config" / "tokenizer_config.json"
    named = [{"name": "default", "template": "{{ eos_token }}"}, {"name": "tool_use", "template": "no"}]
    for template in ("{{ eos_token }}", named):
        config.write_text(json.dumps({"eos_token": {"content": END}, "chat_template": template}))
        assert shown(tmp_path / "config") == END
    config.write_text("[]")
    with pytest.raises(ConfigError, match=r"http\.tokenizer"):
        load_template(tmp_path / "config")


def test_templates_of_requests_can_be_refused() -> None:
    template = ChatTemplate("own", accepts_others=False)
    assert template.rendered(TALK, tools=None, add_generation_prompt=True) == "own"
    with pytest.raises(InvalidRequestError, match=r"http\.request_templates"):
        template.rendered(TALK, tools=None, add_generation_prompt=True, source="other")


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{% set _ = messages.append(1) %}",
        "{% for _ in range(10 ** 7) %}{% endfor %}",
        "{{ 1 // 0 }}",
        "{{ messages[7].content.x }}",
    ],
)
def test_a_template_reaches_nothing_but_its_variables(source: str) -> None:
    with pytest.raises(InvalidRequestError) as raised:
        ChatTemplate().rendered(TALK, tools=None, add_generation_prompt=True, source=source)
    assert raised.value.field == "messages"
