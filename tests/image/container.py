"""An image from an OCI archive, and containers of it that have as little as a restricted pod: no rights, one tmpfs."""

import gzip
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast
from uuid import uuid4

USER = 65532
WHITEOUT = ".wh."
"""Prefix of a file that says: what this name was in the layers below is gone."""
MOUNTS = [
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {
        "destination": "/sys",
        "type": "bind",
        "source": "/sys",
        "options": ["rbind", "ro"],
    },  # as in a pod: lscpu reads it
    {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"]},
    {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": ["nosuid", "nodev", "mode=1777"]},  # noqa: S108 - the container's
    {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "mode=1777"]},  # noqa: S108 - the container's
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A root file system and how processes start in it."""

    name: str
    root: Path
    config: dict[str, Any]

    def command(self, *arguments: str) -> list[str]:
        return [*self.config["Entrypoint"], *arguments]

    def files(self) -> Iterator[Path]:
        """Every file and folder, links not followed."""
        for folder, folders, names in os.walk(self.root):
            yield from (Path(folder, name) for name in (*folders, *names))

    def relative(self, paths: Sequence[Path]) -> list[str]:
        """The paths as a container sees them, without the first slash."""
        return [str(path.relative_to(self.root)) for path in paths]


def unpack(archive: Path, root: Path) -> Image:
    """Apply the layers of an OCI archive to an empty folder. Needs root, for owners and modes are kept."""
    with tarfile.open(archive) as tar:

        def blob(descriptor: dict[str, Any]) -> BinaryIO:
            return cast("BinaryIO", tar.extractfile(f"blobs/{descriptor['digest'].replace(':', '/')}"))

        index = json.load(cast("BinaryIO", tar.extractfile("index.json")))
        described = index["manifests"][0]
        manifest = json.load(blob(described))
        for layer in manifest["layers"]:
            raw = blob(layer)
            stream = cast("BinaryIO", gzip.GzipFile(fileobj=raw)) if layer["mediaType"].endswith("gzip") else raw
            with tarfile.open(fileobj=stream, mode="r|") as changes:
                _apply(changes, root)
        config = json.load(blob(manifest["config"]))["config"]
    return Image(name=described["annotations"]["org.opencontainers.image.ref.name"], root=root, config=config)


def _apply(changes: tarfile.TarFile, root: Path) -> None:
    for member in changes:
        path = PurePosixPath(member.name)
        assert ".." not in path.parts
        target = root / path.as_posix().lstrip("/")
        if path.name.startswith(WHITEOUT):
            _remove(target.with_name(path.name.removeprefix(WHITEOUT)))
            continue
        if not member.isdir():
            _remove(target)
        changes.extract(member, root, filter="fully_trusted")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def container(
    image: Image, bundle: Path, command: Sequence[str], *, shows: Mapping[str, Path] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """
    A process in a container, on the network of the host: as number 65532, without capabilities, on a read-only root.

    `shows` are folders of the host by their paths in the container, which may only read them.

    Leaving ends it. The process is the runtime's, which passes signals on and ends as the first process ends.
    """
    shown = [
        {"destination": path, "type": "bind", "source": str(folder), "options": ["rbind", "ro"]}
        for path, folder in (shows or {}).items()
    ]
    spec = {
        "ociVersion": "1.0.0",
        "process": {
            "user": {"uid": USER, "gid": USER},
            "args": list(command),
            "env": image.config["Env"],
            "cwd": image.config["WorkingDir"],
            "capabilities": {},
            "noNewPrivileges": True,
        },
        "root": {"path": str(image.root), "readonly": True},
        "mounts": [*MOUNTS, *shown],
        "linux": {"namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")]},
    }
    bundle.mkdir()
    (bundle / "config.json").write_text(json.dumps(spec))
    process = subprocess.Popen(
        ["runc", "run", "--bundle", str(bundle), f"tlt-{uuid4().hex[:8]}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def output(image: Image, bundle: Path, command: Sequence[str], timeout_s: float = 60) -> str:
    """What a command in a container writes; it has to end well."""
    with container(image, bundle, command) as process:
        text, _ = process.communicate(timeout=timeout_s)
        assert process.returncode == 0, text
        return text
