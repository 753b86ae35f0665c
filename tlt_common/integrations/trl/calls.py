"""Calls of a trainer's functions: tools, rewards and environments."""

import asyncio
from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any


async def result_of(function: Callable[..., Any], /, **arguments: Any) -> Any:
    """Call a function, in a thread unless it is a coroutine function, and return its result."""
    if iscoroutinefunction(function):
        return await function(**arguments)
    return await asyncio.to_thread(function, **arguments)
