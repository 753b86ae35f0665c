"""Plain decoding."""

from dataclasses import dataclass

from tlt_common.domain.arm.arm import Arm, register


@dataclass(frozen=True, slots=True)
class Off:
    """One token per request and round. Has one arm, `OFF`."""

    name: str = "off"
    accepted: str = "off"
    needs_drafter: bool = False
    finds_drafts: bool = False

    def name_of(self, arm: Arm) -> str:
        del arm
        return self.name

    def parse(self, name: str) -> Arm | None:
        return OFF if name == self.name else None

    def tells_of(self, arm: Arm, other: Arm) -> bool:
        del arm, other
        return False


OFF = Arm(0)

register(Off())
