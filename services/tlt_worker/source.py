"""Where weights are: a directory of safetensors this machine can read."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from tlt_common.errors import WeightsError


def directory_of(uri: str) -> Path:
    """
    Name the directory behind a path or file:// URI.

    Raises:
        WeightsError: Another scheme, a relative path, or no directory with safetensors in it.
    """
    parts = urlsplit(uri)
    if parts.scheme not in {"", "file"} or parts.netloc not in {"", "localhost"}:
        raise WeightsError(f"source.uri is {uri!r}; accepted: an absolute path or file:// URI", field="source.uri")
    path = Path(unquote(parts.path) if parts.scheme else uri)
    if not path.is_absolute():
        raise WeightsError(f"source.uri is {uri!r}; accepted: an absolute path or file:// URI", field="source.uri")
    if not path.is_dir():
        raise WeightsError(f"source.uri: {path} is not a directory this worker can read", field="source.uri")
    if not any(path.glob("*.safetensors")):
        raise WeightsError(f"source.uri: {path} holds no *.safetensors", field="source.uri")
    return path
