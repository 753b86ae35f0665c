"""The progress bar, on standard error and only on a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

Phases: TypeAlias = Callable[[str, int], Callable[[int], None]]
"""Begins a phase of so many parts, and returns what is told how many of them are over."""


@contextmanager
def phases() -> Iterator[Phases]:
    """Show a bar for each phase."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:

        def begin(name: str, total: int) -> Callable[[int], None]:
            task = progress.add_task(name, total=total)
            return lambda done: progress.update(task, completed=done)

        yield begin


@contextmanager
def counting(what: str) -> Iterator[Callable[[int], None]]:
    """Show a counter of unknown total."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.completed:,} {task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=None)
        yield lambda found: progress.update(task, completed=found)
