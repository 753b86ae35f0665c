"""
Renders chat templates in a separate process (`python -m tlt_gateway.http.text.rendering`).

Like transformers' `render_jinja_template`, with messages as SGLang passes them. A request is a JSON object with the
arguments of `render`; an answer is text.
"""

import json
from datetime import datetime
from functools import lru_cache
from typing import Any, Never

from jinja2 import Template, TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, LoopControlExtension
from jinja2.nodes import EvalContext
from jinja2.parser import Parser
from jinja2.runtime import Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import pass_eval_context

from tlt_gateway.http.resident.child import MAX_ANSWER_BYTES, RefusedError, serve

MAX_REPEATED = 2**20
"""Longest string or list that `*` makes, and number of bits of the longest integer that `*` and `**` make."""
TAG = "CONTINUE_FINAL_MESSAGE_TAG "
"""Marks the end of the message to be continued, as in transformers, whose templates may look at it."""

CONTINUES = "continue_final_message"


_MEDIA = ("image", "audio", "video", "vision")
_MESSAGES = ("message", "msg", "m")


class _Generation(Extension):
    """`{% generation %}`, which marks responses for training; its content is rendered unchanged."""

    tags = {"generation"}  # noqa: RUF012 - jinja's convention

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_printed"), [], [], body).set_lineno(line)

    @pass_eval_context
    def _printed(self, _context: EvalContext, caller: Macro) -> str:
        return str(caller())


class _Sandbox(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"*", "**"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Refuse operations with huge results, which no prompt needs, before they are computed."""
        if _size(operator, left, right) > MAX_REPEATED:
            raise SecurityError(f"the result of {operator} is too large")
        return super().call_binop(context, operator, left, right)


def _size(operator: str, left: Any, right: Any) -> int:
    if operator == "**":
        return int(left).bit_length() * int(right) if isinstance(left, int) and isinstance(right, int) else 0
    if isinstance(left, int) and isinstance(right, int):
        return max(left.bit_length(), right.bit_length())
    repeated, count = (right, left) if isinstance(left, int) else (left, right)
    return len(repeated) * count if isinstance(repeated, str | list | tuple) and isinstance(count, int) else 0


@lru_cache(maxsize=16)
def _compiled(source: str) -> tuple[Template, bool]:
    """Return a compiled template and whether it reads contents as parts."""
    environment = _Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, LoopControlExtension])
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)  # noqa: DTZ005 - as transformers'
    return environment.from_string(source), reads_parts(source, environment.parse(source))


def _to_json(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    # Not jinja's own filter, which escapes HTML.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _refuse(message: str) -> Never:
    raise TemplateError(message)


def render(
    source: str, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, *, continues: bool, **rest: Any
) -> str:
    """
    Render messages to text.

    Args:
        source: The template.
        messages: Role and content of each, which is text or a list of parts, and other fields that templates read.
        tools: The functions that the model may call.
        continues: End within the last message.
        rest: Further variables.

    Raises:
        RefusedError: The template is malformed, or cannot render the messages.
    """
    try:
        template, parts = _compiled(source)
    except (TemplateError, RecursionError) as error:
        raise RefusedError(f"chat_template is malformed: {error}", field="chat_template") from error
    shown = [_with_content(message, parts=parts) for message in messages]
    final = _marked(shown[-1]) if continues else None
    try:
        text = _printed(template, {"messages": shown, "tools": tools, **rest})
    except (MemoryError, RefusedError):
        raise
    except Exception as error:
        if not tools:
            raise
        # As in SGLang: some templates expect functions without the object around them.
        flat = [tool.get("function", tool) for tool in tools]
        try:
            text = _printed(template, {"messages": shown, "tools": flat, **rest})
        except Exception:  # noqa: BLE001 - the first error says more
            raise error from None
    return text if final is None else _cut(text, final)


def _printed(template: Template, variables: dict[str, Any]) -> str:
    found, length = [], 0
    for piece in template.generate(variables):
        found.append(piece)
        length += len(piece)
        if length > MAX_ANSWER_BYTES:
            raise RefusedError(f"the prompt has more than {MAX_ANSWER_BYTES} characters")
    return "".join(found)


def _with_content(message: dict[str, Any], *, parts: bool) -> dict[str, Any]:
    """Return a message with its content in the form that the template reads, as SGLang decides it."""
    content = message.get("content")
    if not isinstance(content, list):
        return message | {"content": "" if content is None else content}
    if not parts or message["role"] == "tool":
        return message | {"content": " ".join(part["text"] for part in content)}
    return message


def _marked(message: dict[str, Any]) -> str:
    """Mark the end of a message; return the message's text."""
    content = message["content"]
    if isinstance(content, str):
        message["content"] = content + TAG
        return content
    last = next((part for part in reversed(content) if "text" in part), None)
    if last is None:
        raise RefusedError("continue_final_message requires text in the last message", field=CONTINUES)
    text = str(last["text"])
    last["text"] = text + TAG
    return text


def _cut(text: str, final: str) -> str:
    """Return a prompt up to the mark."""
    if final.strip() not in text or TAG.strip() not in text:
        raise RefusedError("continue_final_message: the chat template omits the last message", field=CONTINUES)
    end = text.rindex(TAG.strip())
    return text[:end] if text[end : end + len(TAG)] == TAG else text[:end].rstrip()


def _answer(request: bytes) -> bytes:
    return render(**json.loads(request)).encode()


def reads_parts(source: str, parsed: nodes.Template) -> bool:
    """Whether a template loops over the parts of messages; `detect_jinja_template_content_format` in SGLang."""
    return any(word in source for word in _MEDIA) or any(_is_content(loop.iter) for loop in parsed.find_all(nodes.For))


def _is_content(node: nodes.Node | None) -> bool:
    """Whether an expression is the content of a message, one of its parts, or either of them filtered."""
    while isinstance(node, nodes.Filter | nodes.Test) or (
        isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice)
    ):
        node = node.node
    if isinstance(node, nodes.Getitem):
        name = node.arg.value if isinstance(node.arg, nodes.Const) else None
    elif isinstance(node, nodes.Getattr):
        name = node.attr
    else:
        return False
    return name == "content" and isinstance(node.node, nodes.Name) and node.node.name in _MESSAGES


if __name__ == "__main__":
    serve(lambda: (_answer, b""))
