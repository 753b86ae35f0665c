"""Capture stops while the queue of frames is nearly full, and goes on once it has emptied."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tlt_worker.speculation.frame_sender import FULL, ROOMY, QueueLimit


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50))
def test_it_stops_when_full_and_goes_on_when_roomy(looks: list[float]) -> None:
    room, answers = QueueLimit(), list[bool]()
    for used in looks:
        changed = room.look(used)
        answers.append(room.is_full)
        assert changed == ((len(answers) > 1 and answers[-1] != answers[-2]) or (len(answers) == 1 and room.is_full))
        assert room.is_full or used < FULL
        assert not room.is_full or used >= ROOMY
    for (before, now), used in zip(pairwise(answers), looks[1:], strict=True):
        if ROOMY <= used < FULL:  # no flapping in between
            assert now == before
