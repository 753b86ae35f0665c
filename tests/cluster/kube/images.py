"""Container images made here as OCI archives: no registry, no Docker, a few KiB each."""

import hashlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

PAUSE = "test.local/pause:1"
PYTHON = "test.local/python:1"
USER = 65532  # what our pods run as
CACHE = "/var/cache/python"

PAUSE_C = """
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void end(int s) { _exit(0); }
static void reap(int s) { while (waitpid(-1, 0, WNOHANG) > 0); }
int main(void) { signal(SIGINT, end); signal(SIGTERM, end); signal(SIGCHLD, reap); for (;;) pause(); }
"""
PASSWD = f"root:x:0:0:root:/root:/bin/sh\nnonroot:x:{USER}:{USER}:nonroot:/tmp:/bin/sh\n"


def write_pause(archive: Path, name: str = PAUSE) -> None:
    """The image of every pod's sandbox: a static program that sleeps and reaps."""
    _write(archive, name, _layer(_pause), {"Entrypoint": ["/pause"]})


def write_python(archive: Path, name: str = PYTHON) -> None:
    """
    An image with this Python and its environment first in PATH, but with nothing inside: only folders and links.

    It lives from the node's mounts (see `containerd`), so an environment of many GB costs nothing to put into pods.
    Pods share the bytecode they compile, in CACHE: the environment may have none, and Ray starts many processes.
    Under another name it stands for the product's own image, whose entry point is `tlt`.
    """
    path = ":".join([f"{sys.prefix}/bin", "/usr/local/bin", "/usr/bin", "/bin"])
    start = {"Cmd": ["python3"]} if name == PYTHON else {"Entrypoint": ["tlt"]}
    config = {**start, "User": str(USER), "Env": [f"PATH={path}", "HOME=/tmp", f"PYTHONPYCACHEPREFIX={CACHE}"]}
    _write(archive, name, _layer(_thin), config)


def _add(
    tar: tarfile.TarFile, name: str, data: bytes = b"", *, mode: int = 0o644, kind: bytes = tarfile.REGTYPE
) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.type = len(data), mode, kind
    tar.addfile(info, io.BytesIO(data))


def _pause(tar: tarfile.TarFile) -> None:
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder, "pause")
        compiler = ["gcc", "-Os", "-static", "-s", "-x", "c", "-", "-o", str(built)]
        subprocess.run(compiler, input=PAUSE_C.encode(), check=True)
        _add(tar, "pause", built.read_bytes(), mode=0o755)


def _thin(tar: tarfile.TarFile) -> None:
    for name in ("usr", "etc", "proc", "sys", "dev", "run", "var", "root", "opt"):
        _add(tar, name, mode=0o755, kind=tarfile.DIRTYPE)
    _add(tar, "tmp", mode=0o1777, kind=tarfile.DIRTYPE)
    for name in ("bin", "sbin", "lib", "lib64"):
        link = tarfile.TarInfo(name)
        link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
        tar.addfile(link)
    _add(tar, "etc/passwd", PASSWD.encode())
    _add(tar, "etc/ld.so.cache", Path("/etc/ld.so.cache").read_bytes())


def _layer(fill: Callable[[tarfile.TarFile], None]) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        fill(tar)
    return raw.getvalue()


def _digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _write(archive: Path, name: str, layer: bytes, runtime: dict[str, Any]) -> None:
    blobs: dict[str, bytes] = {}

    def blob(media: str, data: bytes) -> dict[str, Any]:
        blobs[_digest(data)] = data
        return {"mediaType": f"application/vnd.oci.image.{media}", "digest": _digest(data), "size": len(data)}

    rootfs = {"type": "layers", "diff_ids": [_digest(layer)]}
    config = {"architecture": "amd64", "os": "linux", "rootfs": rootfs, "config": runtime}
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob("config.v1+json", json.dumps(config).encode()),
        "layers": [blob("layer.v1.tar", layer)],
    }
    names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
    listed = {**blob("manifest.v1+json", json.dumps(manifest).encode()), "annotations": names}
    with tarfile.open(archive, "w") as tar:
        _add(tar, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        _add(tar, "index.json", json.dumps({"schemaVersion": 2, "manifests": [listed]}).encode())
        for digest, data in blobs.items():
            _add(tar, "blobs/" + digest.replace(":", "/"), data)
