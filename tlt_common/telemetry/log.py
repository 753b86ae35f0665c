"""Events with fixed names and facts as keys. Never prompts, tokens or tensors."""

import logging
import sys

import structlog


def configure(level: str) -> None:
    """Write events of `level` and above to stderr: for people on a terminal, as JSON otherwise."""
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def get_logger(name: str) -> structlog.typing.FilteringBoundLogger:
    """Return the logger of a module; `name` goes with each event."""
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger(module=name)
    return logger
