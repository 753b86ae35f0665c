"""What is measured."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A number of workers, and whether each has a file system of its own."""

    workers: int
    apart: bool = False

    @property
    def name(self) -> str:
        """Suffix of its figures."""
        return f"{self.workers}_apart" if self.apart else str(self.workers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A raw copy and the update after it."""

    update_s: float
    copy_s: float
