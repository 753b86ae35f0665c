from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tlt_gateway.http.text.template import ChatTemplate


@pytest.fixture
async def make() -> AsyncIterator[Callable[..., ChatTemplate]]:
    """Make chat templates, or take them, and close them after the test."""
    made: list[ChatTemplate] = []

    def one(*args: Any, **kw: Any) -> ChatTemplate:
        made.append(args[0] if isinstance(args[0], ChatTemplate) else ChatTemplate(*args, **kw))
        return made[-1]

    yield one
    for template in made:
        template.close()
