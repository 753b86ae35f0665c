"""Keeps log events of targets off the terminal, and remembers the errors among them."""

import logging
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import structlog

_errors: list[str] = []


@contextmanager
def quiet() -> Iterator[None]:
    """Drop log events below error, and collect the others for `logged_errors`."""
    before = structlog.get_config()
    _errors.clear()
    structlog.configure(
        processors=[_collect],
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        cache_logger_on_first_use=False,
    )
    logging.disable(logging.CRITICAL)  # gRPC's and asyncio's own
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        structlog.configure(**before)


def logged_errors() -> tuple[str, ...]:
    """Return the errors logged since the last call."""
    found = tuple(_errors)
    _errors.clear()
    return found


def _collect(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    cause = event.get("exc_info")
    shown = f"{type(cause).__name__}: {cause}" if isinstance(cause, BaseException) else ""
    facts = " ".join(f"{name}={value}" for name, value in event.items() if name not in {"event", "exc_info", "module"})
    _errors.append(" ".join(part for part in (str(event.get("event")), facts, shown) if part))
    raise structlog.DropEvent
