"""Chat templates, against transformers and SGLang."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer
from transformers.utils.chat_template_utils import render_jinja_template

from tests.fakes.chat_model import END, TEMPLATE, write_chat_model
from tests.fakes.tokenizers import KINDS
from tlt_common.errors import ConfigError, InvalidRequestError
from tlt_gateway.http.text.template import ChatTemplate, load_template, sources_of
from tlt_gateway.http.text.text import load_text

Make = Callable[..., ChatTemplate]

CALLED: list[dict[str, Any]] = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": {"ö": [1]}}}]
TALK: list[dict[str, Any]] = [
    {"role": "user", "content": "<Hi> & 'bye'"},
    {"role": "assistant", "content": "", "tool_calls": CALLED},
    {"role": "tool", "content": "5 the ä"},
    {"role": "assistant", "content": "so it is \n"},
]
TOOLS: list[dict[str, Any]] = [{"type": "function", "function": {"name": "f", "description": "ö < 1"}}]
DOCUMENTS = [{"title": "T", "text": "the weather"}]
PARTS = "{% for message in messages %}{% for part in message['content'] %}[{{ part.text }}]{% endfor %}{% endfor %}"
LISTED = "{% for m in messages %}{% for c in m.content[0:1] | list %}{{ c.text or c }}{% endfor %}{% endfor %}"
TEMPLATES = {
    "chatml": TEMPLATE,
    "controls": "{{ bos_token }}{% for m in messages %}\n {%- if loop.first %}{% continue %}{% endif %}\n{{ m }}\n"
    "{% endfor %}{{ messages[-1].content }}",
    "break": "{% for m in messages if m.tool_calls %}{{ m.tool_calls | tojson(indent=2) }}{% break %}{% endfor %}"
    "{{ x }}{{ messages[-1].content }}",
    "json": "{{ tools | tojson(true) }}{{ tools | tojson(ensure_ascii=False, separators=(',', ':'), sort_keys=True) }}"
    "{{ messages | tojson(indent=1) }}{{ messages[-1].content }}",
    "generation": "{% set n = 1 %}{% for m in messages %}{% generation %}{% set n = 2 %}{{ m.content }}"
    "{% endgeneration %}{{ n }}{% endfor %}",
    "documents": "{% for d in documents %}{{ d.title }}: {{ d.text }}{% endfor %}"
    "{{ messages[-1]['content'] | trim }}{{ eos_token }}",
    "tokens": "{{ bos_token }}{{ pad_token }}{{ image_token }}{{ unk_token is defined }}{{ messages[-1].content }}",
    "namespace": "{% set ns = namespace(last='') %}{% for m in messages %}{% set ns.last = m.role %}{% endfor %}"
    "{{ ns.last }}{{ 'ab' * 3 }}{{ 2 ** 10 }}"
    "{{ messages | map(attribute='role') | join(', ') }}{{ messages[-1].content }}",
    "date": "{{ strftime_now('%Y') }}{{ add_generation_prompt }}{{ messages[-1].content }}",
    "macro": "{% macro shown(m) %}<{{ m.role }}>{{ m.content }}{% endmacro %}"
    "{% for m in messages %}{{ shown(m) }}{% endfor %}",
}
"""One for each thing that templates do."""


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("tools", [None, TOOLS])
async def test_messages_are_rendered_as_transformers_renders_them(make: Make, name: str, tools: Any) -> None:
    source, tokens = (
        TEMPLATES[name],
        {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<p>", "image_token": "<i>"},
    )
    template = make(source, tokens)
    for talk, opens, continues in (
        (TALK, False, False),
        (TALK, True, False),
        (TALK[:1], True, False),
        (TALK, False, True),
    ):
        ours = await template.rendered(
            talk, tools=tools, documents=DOCUMENTS, add_generation_prompt=opens, continues=continues, variables={"x": 5}
        )
        rest: dict[str, Any] = {**tokens, "x": 5}
        theirs: Any = render_jinja_template(
            [talk],
            tools,
            DOCUMENTS,
            source,
            False,
            continues,
            opens,
            **rest,
        )
        assert ours == theirs[0][0]


@pytest.mark.parametrize("source", [*TEMPLATES.values(), PARTS, LISTED])
async def test_contents_have_the_form_that_sglang_gives_them(make: Make, source: str) -> None:
    utilities = pytest.importorskip("sglang.srt.parser.jinja_template_utils")
    form = utilities.detect_jinja_template_content_format(source)
    parts = [{"type": "text", "text": "the"}, {"type": "text", "text": "weather"}]
    talk: list[dict[str, Any]] = [{"role": "user", "content": parts}, {"role": "assistant", "content": "x"}]
    seen = [utilities.process_content_for_template_format(dict(one), form, [], [], [], []) for one in talk]
    rendered: Any = render_jinja_template([seen], None, DOCUMENTS, source, add_generation_prompt=True)
    assert await make(source).rendered(talk, documents=DOCUMENTS, add_generation_prompt=True) == rendered[0][0]


async def test_a_template_that_wants_functions_alone_gets_them_as_in_sglang(make: Make) -> None:
    source = "{% for tool in tools %}{{ tool.name or raise_exception('no name') }}{% endfor %}"
    assert await make(source).rendered(TALK, tools=TOOLS, add_generation_prompt=True) == "f"


LAYOUTS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "config": ({"chat_template": "one"}, {}),
    "file": ({"chat_template": "no"}, {"chat_template.jinja": "file"}),
    "list": ({"chat_template": [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]}, {}),
    "without default": (
        {"chat_template": [{"name": "rag", "template": "r"}, {"name": "tool_use", "template": "t"}]},
        {},
    ),
    "additional": (
        {"chat_template": [{"name": "default", "template": "no"}]},
        {
            "chat_template.jinja": "d",
            "additional_chat_templates/tool_use.jinja": "t",
            "additional_chat_templates/rag.jinja": "r",
        },
    ),
    "only additional": ({"chat_template": "no"}, {"additional_chat_templates/tool_use.jinja": "t"}),
    "none": ({}, {}),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("tools", [None, TOOLS])
@pytest.mark.parametrize("named", [None, "rag", "tool_use"])
async def test_the_template_is_the_one_that_transformers_chooses(
    make: Make, tmp_path: Path, layout: str, tools: Any, named: str | None
) -> None:
    config, files = LAYOUTS[layout]
    KINDS["byte_level"]().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **config})
    )
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    tokenizer, ours = AutoTokenizer.from_pretrained(tmp_path), make(load_template(tmp_path))
    asked: dict[str, Any] = {"tools": tools, "add_generation_prompt": True}
    try:
        expected = tokenizer.apply_chat_template(TALK, chat_template=named, tokenize=False, **asked)
    except ValueError:
        with pytest.raises(InvalidRequestError, match="accepted") as raised:
            await ours.rendered(TALK, source=named, **asked)
        assert raised.value.field == "chat_template"
    else:
        assert await ours.rendered(TALK, source=named, **asked) == expected


FILES: dict[str, dict[str, Any]] = {
    "plain": {"tokenizer_config": {"bos_token": "<s>", "eos_token": "</s>"}},
    "described": {"tokenizer_config": {"bos_token": {"__type": "AddedToken", "content": "<s>"}}},
    "map": {"special_tokens_map": {"bos_token": "<s>", "pad_token": {"content": "<unk>"}}},
    "map over config": {"tokenizer_config": {"bos_token": "<unk>"}, "special_tokens_map": {"bos_token": "<s>"}},
    "extra by name": {"tokenizer_config": {"extra_special_tokens": {"image_token": "<image>"}}},
    "named": {"tokenizer_config": {"image_token": "<image>"}},
    "extra": {"tokenizer_config": {"extra_special_tokens": ["<image>"], "bos_token": "<s>"}},
    "additional": {"tokenizer_config": {"additional_special_tokens": ["<image>"], "pad_token": "</s>"}},
    "decoder": {
        "tokenizer_config": {
            "bos_token": "<s>",
            "added_tokens_decoder": {
                "0": {"content": "<unk>", "special": True},
                "1": {"content": "<s>", "special": True},
                "2": {"content": "</s>", "special": True},
                "400": {"content": "<image>", "special": False},
            },
        },
        "special_tokens_map": {"bos_token": "</s>"},
    },
    "split": {"tokenizer_config": {"split_special_tokens": True, "bos_token": "<s>"}},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("files", FILES)
async def test_prompts_are_those_of_transformers(make: Make, tmp_path: Path, kind: str, files: str) -> None:
    tokenizer = KINDS[kind]()
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=64, pad_token="<unk>")  # noqa: S106
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    for name, content in FILES[files].items():
        plain = {"tokenizer_class": "PreTrainedTokenizerFast"} if name == "tokenizer_config" else {}
        (tmp_path / f"{name}.json").write_text(json.dumps(plain | content))
    source = "{{ bos_token }}{{ image_token }}{{ pad_token }}"
    source += "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"
    (tmp_path / "chat_template.jinja").write_text(source)
    theirs: Any = AutoTokenizer.from_pretrained(tmp_path)
    text, template = load_text(tmp_path), make(load_template(tmp_path))
    rendered = await template.rendered(TALK, add_generation_prompt=True)
    assert rendered == theirs.apply_chat_template(TALK, tokenize=False)
    (ids,) = await text.encoded([rendered], field="messages", special_tokens=False)
    assert ids == theirs.apply_chat_template(TALK, tokenize=True, return_dict=False)
    for said in ("the <image> is <s>sunny</s>", "", "ä 你"):
        (ids,) = await text.encoded([said], field="prompt")
        assert ids == theirs(said)["input_ids"]
        assert text.decoded(ids) == theirs.decode(ids, skip_special_tokens=True)
        assert text.decoded(ids, skip_special_tokens=False) == theirs.decode(ids)


@pytest.mark.parametrize("begins", [None, True, False])
@pytest.mark.parametrize("kind", ["LlamaTokenizerFast", "PreTrainedTokenizerFast"])
async def test_whether_texts_begin_with_bos_is_decided_as_in_sglang(
    tmp_path: Path, begins: bool | None, kind: str
) -> None:
    tokenizers = pytest.importorskip("sglang.srt.utils.hf_transformers.tokenizer")
    KINDS["byte_fallback"]().save(str(tmp_path / "tokenizer.json"))
    config = {
        "tokenizer_class": kind,
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "add_bos_token": begins,
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (ids,) = await load_text(tmp_path).encoded(["the"], field="prompt")
    assert ids == tokenizers.get_tokenizer(str(tmp_path)).encode("the")


async def test_a_damaged_directory_is_refused(tmp_path: Path) -> None:
    write_chat_model(tmp_path)
    assert sources_of(tmp_path) == {"default": TEMPLATE}
    for content in ("[]", '{"chat_template": [1]}'):
        (tmp_path / "chat_template.jinja").unlink(missing_ok=True)
        (tmp_path / "tokenizer_config.json").write_text(content)
        with pytest.raises(ConfigError, match=r"http\.tokenizer"):
            load_template(tmp_path)


async def test_templates_of_requests_can_be_refused(make: Make) -> None:
    template = make({"default": "own", "rag": END}, accepts_others=False)
    assert await template.rendered(TALK, add_generation_prompt=True) == "own"
    assert await template.rendered(TALK, add_generation_prompt=True, source="rag") == END
    with pytest.raises(InvalidRequestError, match=r"http\.request_templates"):
        await template.rendered(TALK, add_generation_prompt=True, source="other")
