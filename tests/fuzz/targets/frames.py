"""Hidden-state frames: as the cache indexes and the trainer decodes them. `test_codec` tests the codec itself."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import strategies as st

from tests.fuzz import hostile
from tests.fuzz.files import accepted_or_refused
from tests.fuzz.target import HarmError, Subject, Target
from tests.fuzz.valid_frame import valid_frame
from tlt_common.codec import read
from tlt_common.domain.hidden import EncodedFrame
from tlt_common.errors import InvalidRequestError

HEADER_BYTES = 64
"""At least the length of a frame's header."""


def _lying(place: int, width: int, number: int) -> bytes:
    """Return a frame with another number at a place of its header."""
    blob = valid_frame(3).blob
    other: bytes = int(number % 256**width).to_bytes(width, "little")
    return blob[:place] + other + blob[place + width :]


_INPUTS = st.one_of(
    hostile.mutated([valid_frame(count).blob for count in (1, 3, 40)]),
    st.builds(_lying, st.integers(0, HEADER_BYTES), st.sampled_from((1, 2, 4, 8)), hostile.integers()),
)


@contextmanager
def _trained(_directory: Path) -> Iterator[Subject]:
    from tlt_trainer.data.frame import decoded

    def feed(blob: bytes) -> None:
        accepted_or_refused(lambda: decoded(read(blob)), InvalidRequestError)

    yield Subject(inputs=_INPUTS, feed=feed)


@contextmanager
def _indexed(_directory: Path) -> Iterator[Subject]:
    from tlt_cache.entry import entry_of, unpacked

    def kept(blob: bytes) -> None:
        frame: EncodedFrame = read(blob)
        entry = entry_of(frame, 1)
        if unpacked(1, struct.pack("<Q", entry.size_bytes) + entry.packed()) != entry:
            raise HarmError("the index entry of an accepted frame changed when it was stored")

    yield Subject(inputs=_INPUTS, feed=lambda blob: accepted_or_refused(lambda: kept(blob), InvalidRequestError))


TARGETS = (
    Target(name="frames.trainer", open=_trained),
    Target(name="frames.cache", open=_indexed),
)
