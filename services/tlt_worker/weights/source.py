"""Locates weights in a directory of safetensors on this machine, or copies them from an object store."""

import shutil
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from fsspec.core import url_to_fs

from tlt_common.domain.weights import MAX_WEIGHTS_BYTES, SOURCE_PREFIXES
from tlt_common.errors import WeightsError, WeightsUnreadableError
from tlt_common.weights.files import INDEX, MAX_INDEX_BYTES, chosen, weight_files

COPIED = ("*.json", "*.jinja", "*.txt", "tokenizer.model")
"""Names of the files that are copied with the weights: configuration and tokenizer. Code and all else stay behind."""
PARALLEL_FILES = 8
"""Files copied at the same time; one connection does not fill the link to an object store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightSources:
    """Accepted sources of weights. Methods block: call them in a thread."""

    prefixes: tuple[str, ...] = SOURCE_PREFIXES
    """Accepted prefixes of URIs. Those that begin with `/` are directories, for paths and file:// URIs."""
    max_bytes: int = MAX_WEIGHTS_BYTES
    """Maximum size of a copied directory."""

    def located(self, uri: str, copy_to: Path) -> Path:
        """
        Return the directory of a URI. A remote one is copied to `copy_to` first.

        Raises:
            WeightsError: The URI is not accepted, or has no weights.
            WeightsUnreadableError: This machine cannot read or store the weights.
        """
        return self.fetch(uri, copy_to) if is_remote(uri) else self.directory_of(uri)

    def directory_of(self, uri: str) -> Path:
        """
        Return the directory of a path or file:// URI.

        Raises:
            WeightsError: The scheme, host or path is not accepted, or the path is relative.
            WeightsUnreadableError: It is not a directory with a complete checkpoint on this machine.
        """
        path = self._local(uri)
        if not path.is_dir():
            raise WeightsUnreadableError(
                f"source.uri: {path} is not a directory readable by this worker", field="source.uri"
            )
        weight_files(path)
        return path

    def _local(self, uri: str) -> Path:
        parts = urlsplit(uri)
        if parts.scheme not in {"", "file"} or parts.netloc not in {"", "localhost"}:
            raise self._refused(uri)
        path = Path(unquote(parts.path) if parts.scheme else uri)
        if not path.is_absolute():
            raise self._refused(uri)
        accepted = [Path(prefix).resolve() for prefix in self.prefixes if prefix.startswith("/")]
        if not any(path.resolve().is_relative_to(directory) for directory in accepted):
            raise self._refused(uri)
        return path

    def fetch(self, uri: str, directory: Path) -> Path:
        """
        Copy a directory of safetensors to `directory` atomically; return `directory`.

        An existing copy is kept: two pods on a node may fetch the same model to the same directory.

        Raises:
            WeightsError: The URL is not accepted, contains no safetensors, or is too large.
            WeightsUnreadableError: The URL is unreadable, or the disk is full.
        """
        self._require_accepted(uri)
        if _has_weights(directory):
            return directory
        partial = directory.with_name(f".{directory.name}.{uuid.uuid4().hex[:8]}")
        try:
            directory.parent.mkdir(parents=True, exist_ok=True)
            self._copy(uri, partial)
            if directory.is_dir() and not any(directory.iterdir()):
                directory.rmdir()
            partial.rename(directory)
        except WeightsError:
            raise
        except Exception as error:  # every kind of store raises its own errors: s3fs passes on botocore's
            if not _has_weights(directory):
                raise WeightsUnreadableError(
                    f"{uri} cannot be copied to {directory}: {error}", field="source.uri"
                ) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return directory

    def fingerprint(self, uri: str) -> str:
        """
        Return a text that changes when a file of the directory is replaced, without reading files.

        Raises:
            WeightsError: The URI is not accepted.
            WeightsUnreadableError: The directory cannot be listed.
        """
        self._require_accepted(uri)
        try:
            files, path = url_to_fs(uri)
            files.invalidate_cache()
            listed = files.find(str(path).rstrip("/"), maxdepth=1, detail=True)
        except Exception as error:  # every kind of store raises its own errors
            raise WeightsUnreadableError(f"{uri} cannot be listed: {error}", field="source.uri") from error
        return str(sorted((name, sorted(map(str, info.items()))) for name, info in listed.items()))

    def _require_accepted(self, uri: str) -> None:
        if not is_remote(uri):
            self._local(uri)
            return
        remote = [prefix for prefix in self.prefixes if not prefix.startswith("/")]
        is_plain = "::" not in uri and ".." not in PurePosixPath(urlsplit(uri).path).parts
        if not is_plain or not uri.startswith(tuple(remote)):
            raise self._refused(uri)

    def _copy(self, uri: str, to: Path) -> None:
        try:
            files, path = url_to_fs(uri)
        except (ValueError, ImportError) as error:  # an unknown scheme, or one whose package is missing
            raise WeightsUnreadableError(f"{uri}: {error}", field="source.uri") from error
        listed = {
            _leaf(name): (name, info)
            for name, info in files.find(str(path).rstrip("/"), maxdepth=1, detail=True).items()
        }
        weights = chosen(listed, lambda: bytes(files.cat_file(listed[INDEX][0], end=MAX_INDEX_BYTES + 1)), where=uri)
        others = [leaf for leaf in listed if any(fnmatchcase(leaf, pattern) for pattern in COPIED)]
        found = dict(listed[leaf] for leaf in (*weights, *others))
        self._require_space(uri, found, to.parent)
        to.mkdir()  # not its parents: a release that was given up meanwhile stays deleted
        with ThreadPoolExecutor(PARALLEL_FILES, thread_name_prefix="fetch") as pool:
            list(pool.map(lambda name: files.get_file(name, str(to / _leaf(name))), found))
        for name, info in found.items():
            copied, size = (to / _leaf(name)).stat().st_size, info.get("size")
            if size is not None and copied != size:  # a copy cut short must not look like weights that do not fit
                raise WeightsUnreadableError(f"{name} has {size} bytes, its copy {copied}", field="source.uri")

    def _require_space(self, uri: str, found: Mapping[str, Mapping[str, Any]], parent: Path) -> None:
        size = sum(int(info.get("size") or 0) for info in found.values())
        if size > self.max_bytes:
            raise WeightsError(f"{uri} has {size} bytes; the maximum is {self.max_bytes}", field="source.uri")
        if size > (free := shutil.disk_usage(parent).free):
            raise WeightsUnreadableError(f"{uri} has {size} bytes, {parent} has {free} free", field="source.uri")

    def _refused(self, uri: str) -> WeightsError:
        return WeightsError(
            f"source.uri is {uri!r}; accepted: an absolute path or URI that begins with one of {list(self.prefixes)}",
            field="source.uri",
        )


def is_remote(uri: str) -> bool:
    """Return whether a URI must be copied before it can be read."""
    return urlsplit(uri).scheme not in {"", "file"}


def _leaf(name: str) -> str:
    """
    Return the last part of a name in a store.

    Stores may list any name: with fsspec's HTTP directory listing, `../../x` would be written outside the target.
    """
    return str(name).rpartition("/")[2]


def _has_weights(directory: Path) -> bool:
    try:
        return bool(weight_files(directory))
    except WeightsUnreadableError:
        return False
