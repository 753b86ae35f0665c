"""Chat templates that a caller wrote to harm, and messages that harm the model's own."""

from collections.abc import Callable
from typing import Any

import pytest

from tlt_common.errors import InvalidRequestError
from tlt_gateway.http.text.template import ChatTemplate

Make = Callable[..., ChatTemplate]
TALK: list[dict[str, Any]] = [{"role": "user", "content": "<Hi> & 'bye'"}]


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{% set _ = messages.append(1) %}",
        "{% for _ in range(10 ** 7) %}{% endfor %}",
        "{{ 1 // 0 }}",
        "{{ messages[7].content.x }}",
        "{{ 9 ** (9 ** 9) }}",
        "{{ 'x' * 10 ** 9 }}",
        "{{ [1] * 10 ** 9 }}",
        "{{ (1, 2) * 10 ** 9 }}",
        "{% set ns = namespace(a=3) %}{% for _ in range(60) %}{% set ns.a = ns.a * ns.a %}{% endfor %}",
        "{{ '%999999999999d' % 1 }}",
        "{{ '%*d' % (2 ** 31 - 1, 1) }}",
        "{{ '{:>9999999999}'.format(1) }}",
        "{{ 'x' | center(10 ** 9) }}",
        "{{ messages | tojson(indent=10 ** 9) }}",
        "{{ 'x' | indent(10 ** 9, first=true) }}",
        "{% set ns = namespace(s='x' * 9999) %}{% for _ in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
        "{% for _ in range(9999) %}{% for _ in range(9999) %}{{ 'xxxxxxxx' }}{% endfor %}{% endfor %}",
        "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}",
        "{% for _ in range(99999) %}{% for _ in range(99999) %}{% endfor %}{% endfor %}",
        "{% for _ in range(99999) %}{% set _ = (2 ** 999999) | string | length %}{% endfor %}",
    ],
)
async def test_a_template_reaches_nothing_but_its_variables_and_ends(make: Make, source: str) -> None:
    template = make({"default": "own", "hostile": source})
    with pytest.raises(InvalidRequestError, match="cannot render the messages") as raised:
        await template.rendered(TALK, add_generation_prompt=True, source=source)
    assert raised.value.field == "messages"
    assert await template.rendered(TALK, add_generation_prompt=True) == "own", "the next one is served"


@pytest.mark.parametrize("source", ["{{ " + "(" * 9999 + "1" + ")" * 9999 + " }}", "{% for %}", "{{ x | nothing }}"])
async def test_a_malformed_template_is_named(make: Make, source: str) -> None:
    with pytest.raises(InvalidRequestError, match="malformed") as raised:
        await make("own").rendered(TALK, add_generation_prompt=True, source=source)
    assert raised.value.field == "chat_template"


async def test_messages_and_tools_of_any_size_end_in_a_prompt_or_a_refusal(make: Make) -> None:
    deep: Any = {}
    for _ in range(3000):
        deep = {"x": deep}
    template = make(
        "{% for m in messages %}{% for n in messages %}{{ m.content[:1] }}{% endfor %}{% endfor %}{{ tools | tojson }}"
    )
    with pytest.raises(InvalidRequestError):
        await template.rendered(TALK, tools=[deep], add_generation_prompt=True)
    with pytest.raises(InvalidRequestError, match="CPU time"):
        await template.rendered([{"role": "user", "content": "x"}] * 20_000, add_generation_prompt=True)
    with pytest.raises(InvalidRequestError, match="Unicode"):
        await template.rendered([{"role": "user", "content": "\ud800"}], add_generation_prompt=True)
    assert await template.rendered(TALK[:1], add_generation_prompt=True) == "<null"
