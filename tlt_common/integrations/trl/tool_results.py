"""Calls of tools."""

from collections.abc import Mapping
from typing import Any

from tlt_common.integrations.trl.calls import result_of
from tlt_common.integrations.trl.chat import Message, Tool


async def called(call: Message, tools: Mapping[str, Tool]) -> tuple[Message, bool]:
    """
    Call a tool as a response asks; return its result as a message, and whether it succeeded.

    An error is a result, too: the policy may learn from it.
    """
    function = call.get("function", call)
    name, arguments = function.get("name", ""), function.get("arguments") or {}
    result: Any
    try:
        if (tool := tools.get(name)) is None:
            raise LookupError(f"no tool {name!r}; there are: {', '.join(sorted(tools))}")  # noqa: TRY301 - a result
        result = await result_of(tool, **arguments)
    except Exception as error:  # noqa: BLE001 - a tool may raise anything
        return _message(name, {"error": str(error)}), False
    return _message(name, result), True


def _message(name: str, result: Any) -> Message:
    return {"role": "tool", "name": name, "content": str(result)}
