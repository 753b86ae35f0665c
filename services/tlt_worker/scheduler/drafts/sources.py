"""Draft sources of an engine's arms."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from tlt_common.domain.arm import Arm
from tlt_worker.link.settings import LinkSettings
from tlt_worker.scheduler.drafts import kinds as _kinds  # noqa: F401 - registers the sources
from tlt_worker.scheduler.drafts.source import MAKERS, DraftSource, Found


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """One source per kind of arm that finds its drafts."""

    by_kind: Mapping[str, DraftSource]

    @classmethod
    def of(cls, settings: LinkSettings, *, leads: bool) -> Self:
        """
        Create the sources that the arms of `settings` need. `leads` means that this rank looks up drafts for all ranks.

        Raises:
            ValueError: A kind of arm finds its drafts, but has no registered source.
        """
        kinds = dict.fromkeys(arm.kind for arm in settings.arms if arm.finds_drafts)
        if missing := [kind for kind in kinds if kind not in MAKERS]:
            raise ValueError(f"arms of kind {missing[0]!r} have no draft source; accepted: {', '.join(MAKERS)}")
        return cls(by_kind={kind: MAKERS[kind](settings, leads) for kind in kinds})

    @property
    def size_bytes(self) -> int:
        """Memory held by all sources."""
        return sum(source.size_bytes for source in self.by_kind.values())

    def source(self, arm: Arm) -> DraftSource | None:
        """Return the draft source of an arm; None if it uses the learned drafter or does not draft."""
        return self.by_kind.get(arm.kind)

    def find(self, arm: Arm, batch: Any) -> int:
        """Look up the drafts of an arm; return their total number."""
        return self.by_kind[arm.kind].find(batch, arm.steps)

    def found(self, arm: Arm) -> Found:
        """Return the drafts found for a round of this arm."""
        return source.found if (source := self.source(arm)) is not None else []

    def agree(self, arm: Arm, found: Found) -> None:
        """Use `found`, the drafts that rank 0 found, in the next round."""
        if (source := self.source(arm)) is not None:
            source.found = found

    def launched(self, batch: Any, result: Any) -> None:
        """Record a launched round."""
        for source in self.by_kind.values():
            source.launched(batch, result)

    def processed(self, batch: Any, result: Any) -> None:
        """Record a round's tokens."""
        for source in self.by_kind.values():
            source.processed(batch, result)
