"""Reads a published drafter and writes it for another engine."""

from pathlib import Path

from tlt_common.drafter.meta import CONFIG_FILE, META_FILE
from tlt_common.errors import ConfigError, NotFoundError, TltError
from tlt_common.whole_file import write_whole
from tlt_trainer.drafter.export import ExportFormat, exported
from tlt_trainer.drafter.files import as_safetensors
from tlt_trainer.store.storage import Storage, read_uri


def export_to(source: str, to: Path, engine: str, *, model: str = "") -> str:
    """
    Export a drafter; return its URI.

    Args:
        source: A drafter's directory or a directory of published drafters, as path or fsspec URL.
        to: Directory to write.
        engine: Name of an `ExportFormat`.
        model: Name or path of the target, for the card.

    Raises:
        ConfigError: An argument is invalid; the message names it and what is accepted.
    """
    if engine not in list(ExportFormat):
        raise ConfigError(f"--format is {engine!r}; accepted: {', '.join(ExportFormat)}", field="format")
    require_empty(to)
    uri, files = find_drafter(source)
    try:
        written = exported(files, ExportFormat(engine), model=model)
    except TltError as error:
        raise ConfigError(f"{uri}: {error.message}", field="source") from error
    try:
        to.mkdir(parents=True, exist_ok=True)
        for name, content in sorted(written.items(), key=lambda item: item[0] == CONFIG_FILE):  # it marks the end
            write_whole(to / name, content)
    except OSError as error:
        raise ConfigError(f"--to: {to} cannot be written: {error}", field="to") from error
    return uri


def require_empty(to: Path, option: str = "--to") -> None:
    """
    Raises:
        ConfigError: The directory exists and is not empty.
    """
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise ConfigError(f"{option}: {to} exists; accepted: an empty or absent directory", field="to")


def find_drafter(source: str) -> tuple[str, dict[str, bytes]]:
    """
    Return the URI of a drafter and its files.

    Args:
        source: A drafter's directory, or a directory of published drafters, of which the newest is used.

    Raises:
        ConfigError: There is none, or it cannot be read.
    """
    source = source.rstrip("/")
    try:
        try:
            return source, as_safetensors(read_uri(source, mark=CONFIG_FILE))
        except NotFoundError:
            storage = Storage(source, mark=META_FILE)
            names = storage.names()  # they begin with the version
            if not names:
                raise
            return f"{source}/{names[-1]}", storage.read(names[-1])
    except TltError as error:
        accepted = "accepted: the directory or URL of a published drafter, or of several"
        raise ConfigError(f"{source}: {error.message}; {accepted}", field="source") from error
