"""Releases on disk, from which a restarted gateway brings workers forward."""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tlt_common.documents import json_of
from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.weights import MAX_WEIGHTS_BYTES, ReleaseId
from tlt_common.errors import WeightsError
from tlt_common.telemetry.log import get_logger
from tlt_common.weights.checkpoint import pieces_in
from tlt_common.weights.layout import FILE_NAME
from tlt_common.weights.locked_directory import LockedDirectory, abandoned
from tlt_common.weights.piece_log import PieceLog
from tlt_common.weights.spool import Spool, fitting
from tlt_common.whole_file import write_whole
from tlt_gateway.weights.release import Release

log = get_logger(__name__)

MANIFEST = "release.json"


class ReleaseStore:
    """
    A directory of spools, each with a manifest once its release is served.

    Gateways may share the directory: each locks its own spools. `recover` and `keep` block: call them in a thread.

    Args:
        directory: The directory; it may be missing.
        shared: Whether workers read the spools at the same path.
        max_bytes: Maximum size of weights.
        volume_bytes: Size of the volume, if it is smaller than its file system; None: the file system's.
    """

    def __init__(
        self, directory: Path, *, shared: bool, max_bytes: int = MAX_WEIGHTS_BYTES, volume_bytes: int | None = None
    ) -> None:
        self.directory = directory
        self.shared = shared
        self._max_bytes = max_bytes
        self._volume_bytes = volume_bytes

    async def begin(self) -> Spool:
        """
        Create a spool for the next weights.

        Raises:
            WeightsUnreadableError: The disk is full or fails.
        """
        return await Spool.begin(self.directory, max_bytes=self.limit()[0])

    def limit(self) -> tuple[int, str]:
        """Return the maximum size of the next weights in bytes and the reason for the limit."""
        bounds = [(self._max_bytes, "on any volume")]
        if (fitted := fitting(self._max_bytes, volume_bytes=self._volume_bytes)) < self._max_bytes:
            bounds.append((fitted, f"half of the volume of {self.directory} (spool_bytes)"))
        existing = next((it for it in (self.directory, *self.directory.parents) if it.is_dir()), None)
        if existing is not None:
            bounds.append((shutil.disk_usage(existing).free, f"what is free in {self.directory}"))
        return min(bounds)

    def require_space(self, size_bytes: int) -> None:
        """
        Check that announced weights fit the volume.

        Raises:
            WeightsError: They do not fit; the message has both sizes.
        """
        limit, why = self.limit()
        if size_bytes > limit:
            raise WeightsError(
                f"the weights have {size_bytes} bytes; the maximum is {limit}, {why}. Publish a directory "
                "instead, or enlarge the volume",
                field="header.size_bytes",
            )

    def recover(self) -> tuple[Release, ...]:
        """
        Take over the spools of processes that have ended: return the greatest release, after the whole weights that it
        is an adapter of, and delete the others.
        """
        found: dict[ReleaseId, Release] = {}
        for locked in abandoned(self.directory):
            release = self._read(locked)
            if release is None or release.id in found:
                locked.remove()
            else:
                found[release.id] = release
        if not found:
            return ()
        newest = found.pop(max(found))
        base = newest.adapter_base
        whole = None if base is None else found.pop(base, Release(id=base))
        for release in found.values():
            release.remove()
        return (newest,) if whole is None or whole.id.version == 0 else (whole, newest)

    def keep(self, release: Release) -> Release:
        """
        Make a release recoverable; return it with its spool.

        Raises:
            OSError: The disk failed or is full. The release remains usable until this process ends.
        """
        locked = release.spool or LockedDirectory.create(self.directory)
        if release.log is not None:
            _sync(locked.directory / FILE_NAME)
        manifest = {
            "policy_version": release.id.version,
            "key": release.id.key,
            "digest": release.id.digest,
            "uri": release.uri,
            "adapter_base": None if release.adapter_base is None else asdict(release.adapter_base),
            "adapter_name": release.adapter_name,
        }
        write_whole(locked.directory / MANIFEST, json.dumps(manifest).encode(), durable=True)
        return replace(release, spool=locked)

    def _read(self, locked: LockedDirectory) -> Release | None:
        file = locked.directory / MANIFEST
        if not file.is_file():
            return None  # its update was not completed
        try:
            manifest = json_of(file.read_bytes())
            release = Release(
                id=_id_of(manifest["policy_version"], manifest),
                uri=manifest["uri"],
                adapter_base=_id_of(base["version"], base) if (base := manifest.get("adapter_base")) else None,
                adapter_name=str(manifest.get("adapter_name", "")),
                spool=locked,
                recovered=True,
            )
            if release.uri is None:
                release = replace(release, log=PieceLog.of(pieces_in(locked.directory)), shared=self.shared)
        except (OSError, ValueError, KeyError, TypeError, WeightsError) as error:
            log.warning("release_unreadable", directory=str(locked.directory), error=str(error))
            return None
        return release


def _id_of(version: Any, parts: Mapping[str, Any]) -> ReleaseId:
    return ReleaseId(version=PolicyVersion(int(version)), key=str(parts["key"]), digest=str(parts["digest"]))


def _sync(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
