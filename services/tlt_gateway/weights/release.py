"""The served weights: their identity, and a source for workers that join later."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.weights import ReleaseId, ServedRelease, StageOrder, TensorChunk
from tlt_common.weights.locked_directory import LockedDirectory
from tlt_common.weights.piece_log import PieceLog


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A release and its local copy: a URI, a spool, or neither if it was published through another gateway."""

    id: ReleaseId
    uri: str | None = None
    """Source published by the trainer. It must remain unchanged until the next update."""
    spool: LockedDirectory | None = None
    """Directory with the tensors streamed to this gateway, or with the manifest only."""
    log: PieceLog | None = None
    """Pieces of the spool, which may still be arriving."""
    shared: bool = False
    """Whether workers can read the spool's directory."""
    base: ReleaseId | None = None
    """The release that workers must serve when they switch, since the weights were derived from it; None for any."""
    adapter_base: ReleaseId | None = None
    """The whole weights that it is an adapter of, with the digest of their tensors if known; None for whole weights."""
    adapter_name: str = ""
    """Name by which requests may ask for that adapter; empty: none."""
    recovered: bool = False
    """Whether the spool was left by an earlier process."""

    @classmethod
    def of(cls, served: ServedRelease) -> "Release":
        """Return a release that a worker reports."""
        return cls(id=served.id, uri=served.uri, adapter_base=served.adapter_base, adapter_name=served.adapter_name)

    @property
    def served(self) -> ServedRelease:
        """The release as workers report it."""
        return ServedRelease(
            id=self.id, uri=self.source, adapter_base=self.adapter_base, adapter_name=self.adapter_name
        )

    @property
    def source(self) -> str | None:
        """URI that workers read, if any."""
        if self.shared and self.log is not None and self.spool is not None:
            return str(self.spool.directory)
        return self.uri

    @property
    def is_streamed(self) -> bool:
        """Whether workers receive the tensors from each other or from this gateway."""
        return self.log is not None and not self.shared

    def order(self, *peers: str, joining: bool = False) -> StageOrder:
        """Return the order to stage the release."""
        return StageOrder(
            release=self.id,
            uri=self.source,
            peers=peers,
            joining=joining,
            base=self._base(joining=joining),
            adapter_base=self.adapter_base,
            adapter_name=self.adapter_name,
        )

    def direct(self, *, joining: bool = False) -> tuple[StageOrder, AsyncIterator[TensorChunk]] | None:
        """Return the order and tensors with which this gateway provides the release, or None if it has none."""
        if self.log is None:
            return None
        order = self.order(joining=joining)
        return replace(order, uri=None), self.log.follow()

    def remove(self) -> None:
        """Delete the spool, if any."""
        if self.spool is not None:
            self.spool.remove()

    def _base(self, *, joining: bool) -> ReleaseId | None:
        """Return the base, or None for joining workers: they are behind and need the whole weights."""
        return None if joining else self.base

    def release(self) -> None:
        """Leave the spool to the next process."""
        if self.spool is not None:
            self.spool.release()


FIRST = Release(id=ReleaseId(version=PolicyVersion(0)))
"""The weights that engines load at startup from their model directory."""
