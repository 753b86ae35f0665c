"""Where weights are: a directory of safetensors on this machine, or in an object store it can copy from."""

import shutil
import uuid
from pathlib import Path
from urllib.parse import unquote, urlsplit

from fsspec.core import url_to_fs

from tlt_common.errors import WeightsError

ACCEPTED = "accepted: an absolute path, file:// or another URL that fsspec knows (s3://, gs://, ...)"


def is_remote(uri: str) -> bool:
    """Say whether it has to be copied before it can be read."""
    return urlsplit(uri).scheme not in {"", "file"}


def directory_of(uri: str) -> Path:
    """
    Name the directory behind a path or file:// URI.

    Raises:
        WeightsError: Another scheme or host, a relative path, or no directory with safetensors in it.
    """
    parts = urlsplit(uri)
    if parts.scheme not in {"", "file"} or parts.netloc not in {"", "localhost"}:
        raise WeightsError(f"source.uri is {uri!r}; {ACCEPTED}", field="source.uri")
    path = Path(unquote(parts.path) if parts.scheme else uri)
    if not path.is_absolute():
        raise WeightsError(f"source.uri is {uri!r}; {ACCEPTED}", field="source.uri")
    if not path.is_dir():
        raise WeightsError(f"source.uri: {path} is not a directory this worker can read", field="source.uri")
    if not any(path.glob("*.safetensors")):
        raise WeightsError(f"source.uri: {path} holds no *.safetensors", field="source.uri")
    return path


def located(uri: str, copy_to: Path) -> Path:
    """
    Name the directory behind a URI; what is remote is copied to `copy_to` first. Blocks: call it in a thread.

    Raises:
        WeightsError: As `directory_of` and `fetch`.
    """
    return fetch(uri, copy_to) if is_remote(uri) else directory_of(uri)


def fetch(uri: str, directory: Path) -> Path:
    """
    Copy a directory of safetensors to `directory`, which appears complete or not at all; return it.

    What is there already stays: two pods of one node may fetch the same model to the same place.

    Raises:
        WeightsError: The URL's kind is not known, or it cannot be read, or holds no safetensors.
    """
    if directory.is_dir() and any(directory.glob("*.safetensors")):
        return directory
    partial = directory.with_name(f".{directory.name}.{uuid.uuid4().hex[:8]}")
    try:
        _copy(uri, partial)
        if directory.is_dir() and not any(directory.iterdir()):
            directory.rmdir()
        partial.rename(directory)
    except WeightsError:
        raise
    except Exception as error:  # every kind of store has errors of its own: s3fs lets botocore's through
        if not (directory.is_dir() and any(directory.glob("*.safetensors"))):
            raise WeightsError(f"{uri} cannot be copied to {directory}: {error}", field="source.uri") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return directory


def _copy(uri: str, to: Path) -> None:
    try:
        files, path = url_to_fs(uri)
        root = str(path).rstrip("/")
        found = [str(name) for name in files.find(root)]
    except (ValueError, ImportError) as error:  # an unknown scheme, or one whose package is missing
        raise WeightsError(f"{uri}: {error}; {ACCEPTED}", field="source.uri") from error
    if not any(name.endswith(".safetensors") for name in found):
        raise WeightsError(f"{uri} holds no *.safetensors", field="source.uri")
    for name in found:
        target = to / name.removeprefix(f"{root}/")
        target.parent.mkdir(parents=True, exist_ok=True)
        files.get_file(name, str(target))
