"""Readers of files as targets."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis.strategies import SearchStrategy

from tests.fuzz.target import Subject, Target, refused_by_name
from tlt_common.errors import TltError


def file_target(
    name: str,
    inputs: SearchStrategy[bytes],
    read: Callable[[Path], Any],
    *,
    file: str,
    prepare: Callable[[Path], None] = lambda _: None,
    refusals: type[TltError] = TltError,
    needs_field: bool = True,
    weight: float = 1.0,
) -> Target:
    """
    Return a target that writes each input to a file and reads it.

    Args:
        name: Name of the target.
        inputs: Contents of the file.
        read: Reads the file, given its path.
        file: Its name.
        prepare: Writes what else the reader needs, given the directory.
        refusals: Type of the errors that `read` may raise.
        needs_field: Whether these errors must name a field.
        weight: Weight of the target.
    """

    @contextmanager
    def opened(directory: Path) -> Iterator[Subject]:
        prepare(directory)
        path = directory / file

        def feed(content: bytes) -> None:
            path.write_bytes(content)
            accepted_or_refused(lambda: read(path), refusals, needs_field=needs_field)

        yield Subject(inputs=inputs, feed=feed)

    return Target(name=name, open=opened, weight=weight)


def accepted_or_refused(read: Callable[[], Any], refusals: type[TltError], *, needs_field: bool = True) -> None:
    """
    Call a reader. An error of another type passes through.

    Raises:
        HarmError: It refused its input and did not name a field.
    """
    try:
        read()
    except refusals as error:
        if needs_field:
            refused_by_name(error)
