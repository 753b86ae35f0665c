"""Environments of TRL's trainers: objects whose methods are tools, one per conversation."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from inspect import getmembers, isfunction
from typing import Any, TypeAlias

from tlt_common.errors import InvalidRequestError
from tlt_common.integrations.trl.calls import result_of
from tlt_common.integrations.trl.chat import Tool

Factory: TypeAlias = Callable[[], Any]
COLUMN = "environment"
"""Column of the data set that names a row's environment, if there are several."""
NO_TOOLS = frozenset({"reset", "get_reward"})


class Environments:
    """
    Creates environments on demand and reuses them. Each is reset before a conversation.

    Args:
        factory: Creates an environment, or a mapping of factories by the name in the column `environment`.

    Raises:
        InvalidRequestError: An environment has no `reset`.

    Attributes:
        rewarding: Classes of environments that have rewards, each once.
    """

    def __init__(self, factory: Factory | Mapping[str, Factory]) -> None:
        self._is_named = isinstance(factory, Mapping)
        self._factories: dict[str, Factory] = dict(factory) if isinstance(factory, Mapping) else {"": factory}
        self._idle = {name: [make()] for name, make in self._factories.items()}
        kinds = [type(one) for (one,) in self._idle.values()]
        for kind in kinds:
            if not callable(getattr(kind, "reset", None)):
                raise InvalidRequestError(
                    f"{kind.__name__} has no method reset; environments must have one",
                    field="environment_factory",
                )
        self.rewarding = [kind for kind in dict.fromkeys(kinds) if hasattr(kind, "get_reward")]

    @asynccontextmanager
    async def taken(self, row: Mapping[str, Any]) -> AsyncIterator[tuple[Any, Any]]:
        """
        Take an environment for a row and reset it; yield it with its observation.

        If the conversation fails, the environment is not reused, since a call may still be running in it.

        Raises:
            InvalidRequestError: The row names an unknown environment.
        """
        name = row.get(COLUMN) if self._is_named else ""
        if name not in self._factories:
            raise InvalidRequestError(
                f"{COLUMN} of a row is {name!r:.80}; accepted: {', '.join(sorted(self._factories))}", field=COLUMN
            )
        idle = self._idle[name]
        environment = idle.pop() if idle else self._factories[name]()
        given = {key: value for key, value in row.items() if not (self._is_named and key == COLUMN)}
        observation = await asyncio.to_thread(environment.reset, **given)
        yield environment, observation
        idle.append(environment)


def tools_of(environment: Any) -> list[Tool]:
    """Return the public methods of an environment, which are its tools."""
    names = [name for name, _ in getmembers(type(environment), isfunction)]
    return [getattr(environment, name) for name in names if not name.startswith("_") and name not in NO_TOOLS]


async def reward_of(environment: Any) -> float | None:
    """Return an environment's reward for the finished conversation; None if it has none."""
    if (get_reward := getattr(environment, "get_reward", None)) is None:
        return None
    found = await result_of(get_reward)
    return None if found is None else float(found)


def observed(prompt: Any, observation: Any) -> Any:
    """Return a conversation with an observation, text or a list of content parts, appended to its last message."""
    if observation is None:
        return prompt
    *earlier, last = prompt
    content = last["content"]
    if isinstance(content, str) and isinstance(observation, list):
        content = [{"type": "text", "text": content}]
    if isinstance(content, list) and isinstance(observation, str):
        observation = [{"type": "text", "text": observation}]
    return [*earlier, {**last, "content": content + observation}]
