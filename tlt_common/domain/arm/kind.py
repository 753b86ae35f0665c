"""Interface and registry of kinds of arms."""

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from tlt_common.domain.arm.value import Arm


class ArmKind(Protocol):
    """A kind of arm: the names of its arms, their requirements, and what their rounds reveal about other arms."""

    @property
    def name(self) -> str:
        """`Arm.kind` of its arms."""
        ...

    @property
    def accepted(self) -> str:
        """Accepted arm names, for error messages."""
        ...

    @property
    def needs_drafter(self) -> bool:
        """
        Whether the loaded drafter produces the drafts.

        Such an arm does not run before a drafter is loaded, and its rewards are dropped when the drafter changes.
        """
        ...

    @property
    def finds_drafts(self) -> bool:
        """
        Whether drafts are looked up before the round, so that there may be too few of them.

        The scheduler then needs a `DraftSource` for the kind (`tlt_worker.scheduler.drafts.sources`).
        """
        ...

    def name_of(self, arm: "Arm") -> str:
        """Return the stable name of an arm of this kind, for configuration, metrics and messages."""
        ...

    def parse(self, name: str) -> "Arm | None":
        """
        Return the arm of that name; None if it is not an arm of this kind.

        Raises:
            ValueError: The name is of this kind, but no such arm can run; states what is accepted.
        """
        ...

    def tells_of(self, arm: "Arm", other: "Arm") -> bool:
        """
        Whether a round of `arm`, which is of this kind, shows how many drafts of `other` would have been accepted: the
        first `other.steps` of its accepted drafts.
        """
        ...


KINDS: Final[dict[str, ArmKind]] = {}
"""Registered kinds by name."""


def register(kind: ArmKind) -> None:
    """
    Register a kind of arm.

    Raises:
        ValueError: Another kind has that name.
    """
    if KINDS.setdefault(kind.name, kind) is not kind:
        raise ValueError(f"arm kind {kind.name!r} is registered twice")


def kind_named(name: str) -> ArmKind:
    """
    Return a registered kind.

    Raises:
        ValueError: No kind has that name.
    """
    if name not in KINDS:
        raise ValueError(f"unknown arm kind {name!r}; accepted: {', '.join(KINDS)}")
    return KINDS[name]
