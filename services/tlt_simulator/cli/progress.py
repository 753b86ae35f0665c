"""Progress on standard error: bars on a terminal, elsewhere a line for each phase."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

Phases: TypeAlias = Callable[[str, int], Callable[[int], None]]
"""Begins a phase with a number of parts, and returns a function to call with the number of finished parts."""


@contextmanager
def phases() -> Iterator[Phases]:
    """Show a bar or a line for each phase."""
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
            if not console.is_terminal:
                console.print(f"{name}: {total} ...", highlight=False)
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
