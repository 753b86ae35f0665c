"""The weights that are served: which version, and where a worker that comes later gets them."""

from collections.abc import Iterator
from dataclasses import dataclass

from tlt_common.checkpoint import Spool, read
from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.weights import TensorChunk, WeightsUpdate


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A version, with at most one of `uri` and `spool`; without both nobody can be brought forward to it."""

    version: PolicyVersion
    uri: str | None = None
    """As the trainer published it. It must stay as it is until the next update."""
    spool: Spool | None = None
    """Tensors that were streamed here."""
    shared: bool = False
    """Workers can read the spool's directory."""

    @property
    def is_at_hand(self) -> bool:
        """Whether a worker can be given it."""
        return self.uri is not None or self.spool is not None

    def header(self) -> WeightsUpdate:
        """What a worker is told first."""
        uri = str(self.spool.directory) if self.spool and self.shared else self.uri
        return WeightsUpdate(version=self.version, uri=uri)

    def tensors(self) -> Iterator[TensorChunk]:
        """What follows the header. Blocks on the disk."""
        return read(self.spool.file) if self.spool and not self.shared else iter(())

    def remove(self) -> None:
        """Delete what was kept for it."""
        if self.spool:
            self.spool.remove()


FIRST = Release(version=PolicyVersion(0))
"""What engines start with; their model directory is their own affair."""
