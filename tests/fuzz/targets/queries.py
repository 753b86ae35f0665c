"""Queries of the coordinator's API."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from fastapi import Request
from hypothesis import strategies as st

from tests.fuzz.target import Subject, Target, refused_by_name
from tlt_common.errors import InvalidRequestError
from tlt_coordinator.http.query import NoQuery, StatusQuery, TimelineQuery, WorkersQuery, reading

_MODELS: tuple[type[NoQuery], ...] = (NoQuery, StatusQuery, TimelineQuery, WorkersQuery)
_NAMES = st.sampled_from(["from", "to", "columns", "rows", "first", "worker", "after", "count", "state", "max_changes"])
_VALUES = st.one_of(
    st.text(),
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(["", "1", "512", "4096", "4097", "-0", "1e400", "1_0", "٣", "0x10", "9" * 5000, "\x00", "true"]),
)
_PAIRS = st.lists(st.tuples(st.one_of(_NAMES, st.text(max_size=5)), _VALUES), max_size=4)
_INPUTS = st.one_of(
    _PAIRS.map(lambda pairs: "&".join(f"{quote(n)}={quote(v)}" for n, v in pairs).encode()), st.binary()
)


@contextmanager
def _open(_: Path) -> Iterator[Subject]:
    with asyncio.Runner() as runner:

        def feed(query: bytes) -> None:
            request = Request({"type": "http", "query_string": query, "headers": []})
            for model in _MODELS:
                try:
                    runner.run(reading(model)(request))  # type: ignore[arg-type] # it is a coroutine
                except InvalidRequestError as error:
                    refused_by_name(error)

        yield Subject(inputs=_INPUTS, feed=feed)


TARGETS = (Target(name="queries", open=_open),)
