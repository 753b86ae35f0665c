"""Names of journal files: `SERVICE-ID-NUMBER.jsonl`, with the id URL-encoded."""

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from tlt_common.errors import ConfigError
from tlt_common.journal.format import SERVICES

SUFFIX = ".jsonl"
JOURNAL_MIN_BYTES = 16 * 2**20
"""Of a service's files together: the longest line is that of ten thousand excluded workers."""
_NAME = re.compile(rf"({'|'.join(SERVICES)})-(.+)-(\d{{6,12}}){re.escape(SUFFIX)}")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class JournalFile:
    """A file of a journal. Files of one service and id are ordered by number."""

    service: str
    id: str
    number: int
    path: Path


def file_of(directory: Path, service: str, service_id: str, number: int) -> JournalFile:
    """Return the file with a number, whether it exists or not."""
    name = f"{service}-{quote(service_id, safe='')}-{number:06}{SUFFIX}"
    return JournalFile(service=service, id=service_id, number=number, path=directory / name)


def is_own(path: Path) -> bool:
    """
    Whether a file is a regular file of this user and may be changed: in a directory that others can write to, a link
    may have the name of a journal.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()


def files_in(directory: Path) -> tuple[JournalFile, ...]:
    """
    Return the files of all journals in a directory, in order.

    Raises:
        ConfigError: The directory cannot be read, or a .jsonl file is not a journal's.
    """
    found = list[JournalFile]()
    try:
        paths = sorted(directory.glob(f"*{SUFFIX}")) if directory.is_dir() else list(directory.iterdir())
    except OSError as error:
        raise ConfigError(f"{directory}: {error.strerror}; accepted: a directory", field="journal") from error
    for path in paths:
        if (file := _journal_file(path)) is None:
            raise ConfigError(
                f"{path} is not a file of a journal; accepted: SERVICE-ID-NUMBER{SUFFIX}, with the services "
                f"{' and '.join(SERVICES)}",
                field="journal",
            )
        found.append(file)
    return tuple(sorted(found))


def files_of(directory: Path, service: str, service_id: str) -> tuple[JournalFile, ...]:
    """
    Return the files of one journal, in order. Other files in the directory are ignored.

    Raises:
        OSError: The directory cannot be read.
    """
    files = (_journal_file(path) for path in directory.iterdir())
    return tuple(sorted(file for file in files if file and (file.service, file.id) == (service, service_id)))


def _journal_file(path: Path) -> JournalFile | None:
    if (match := _NAME.fullmatch(path.name)) is None:
        return None
    service, service_id, number = match.groups()
    return JournalFile(service=service, id=unquote(service_id), number=int(number), path=path)
