"""Structured log events with fixed names. They never contain prompts, tokens, tensors or passwords."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import structlog

from tlt_common.redaction import redacted_value


def configure(level: str) -> None:
    """Log events of `level` and above to stderr: formatted on a terminal, otherwise as JSON."""
    stderr = sys.stderr
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if stderr.isatty() else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            _without_credentials,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=lambda *_: LossyLogger(stderr),
    )


def configure_child(level: str = "info") -> None:
    """Configure logging in a process that a library started: structlog's defaults print local variables, so prompts."""
    if not structlog.is_configured():
        configure(level)


@contextmanager
def quiet() -> Iterator[None]:
    """Log only warnings and errors within the block, unless logging is configured."""
    if structlog.is_configured():
        yield
        return
    configure("warning")
    try:
        yield
    finally:
        structlog.reset_defaults()


class LossyLogger(structlog.WriteLogger):
    """
    Writes each line immediately, since processes share log files, and to an unbuffered stderr.

    Drops lines that cannot be written: a full disk must not end a service.
    """

    def msg(self, message: str) -> None:
        with suppress(OSError):
            super().msg(message)

    debug = info = warning = error = exception = critical = msg


def _without_credentials(
    _logger: structlog.typing.WrappedLogger, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    return {key: redacted_value(value) for key, value in event.items()}


def get_logger(name: str) -> structlog.typing.FilteringBoundLogger:
    """Return the logger of a module; `name` is added to each event."""
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger(module=name)
    return logger
