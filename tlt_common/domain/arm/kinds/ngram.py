"""
Retrieval: proposes continuations of earlier occurrences of the last tokens, in the request, its siblings or the
previous epoch's responses.
"""

import re
from dataclasses import dataclass
from typing import Final

from tlt_common.domain.arm.arm import MAX_STEPS, Arm, register

NGRAM_BYTES: Final = 256 * 2**20
"""Memory of the n-gram index, in which the least recently used prompts make room: 1 million tokens, or more if texts
repeat."""

_NAME = re.compile(r"ngram-(\d+)")


@dataclass(frozen=True, slots=True)
class Ngram:
    """`ngram-N`: chains of up to N retrieved tokens."""

    name: str = "ngram"
    accepted: str = f"ngram-N with N from 1 to {MAX_STEPS}"
    needs_drafter: bool = False
    finds_drafts: bool = True

    def name_of(self, arm: Arm) -> str:
        return f"ngram-{arm.steps}"

    def parse(self, name: str) -> Arm | None:
        found = _NAME.fullmatch(name)
        return ngram(int(found[1])) if found is not None and 1 <= int(found[1]) <= MAX_STEPS else None

    def tells_of(self, arm: Arm, other: Arm) -> bool:
        """Return False: a shorter look-up may find another text."""
        del arm, other
        return False


def ngram(steps: int) -> Arm:
    """Return the arm that retrieves up to `steps` tokens."""
    return Arm(steps, 1, steps + 1, "ngram")


register(Ngram())
