"""States the drafter has not seen, by cache slot."""

import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tlt_worker.scheduler.drafts.backlog import Backlog, Stretch, passes, wanted

HIDDEN = 4
ROW_BYTES = HIDDEN * 4


def states(*values: float) -> torch.Tensor:
    return torch.tensor(values).unsqueeze(1).expand(-1, HIDDEN).contiguous()


def test_states_are_found_by_slot() -> None:
    backlog = Backlog(slot_count=20, limit_bytes=10_000)
    assert not backlog
    backlog.put(torch.tensor([7, 3]), states(0.7, 0.3), torch.tensor([70, 30]))
    rows = backlog.rows(torch.tensor([[3, 4, 7]]))
    assert (rows >= 0).tolist() == [[True, False, True]]
    hidden, tokens = backlog.at(rows[rows >= 0])
    assert torch.equal(hidden, states(0.3, 0.7))
    assert tokens.tolist() == [30, 70]


def test_what_the_drafter_has_written_is_forgotten() -> None:
    backlog = Backlog(slot_count=20, limit_bytes=10_000)
    backlog.drop(torch.tensor([1]))
    assert backlog.rows(torch.tensor([1])).tolist() == [-1]
    backlog.put(torch.tensor([1, 2]), states(1, 2), torch.tensor([1, 2]))
    backlog.drop(torch.tensor([1]))
    assert (backlog.rows(torch.tensor([1, 2])) >= 0).tolist() == [False, True]


def test_a_slot_that_means_none_is_never_found() -> None:
    backlog = Backlog(slot_count=20, limit_bytes=10_000)
    backlog.put(torch.tensor([5, 20, 20]), states(5, 0, 0), torch.tensor([5, 0, 0]))
    assert (backlog.rows(torch.tensor([5, 20])) >= 0).tolist() == [True, False]


@pytest.mark.parametrize("seed", range(20))
def test_the_newest_states_are_kept_up_to_a_number_of_bytes(seed: int) -> None:
    chance = random.Random(seed)
    slots, most = chance.choice([30, 5000]), chance.choice([1, 7, 2000])
    backlog = Backlog(slot_count=slots, limit_bytes=most * ROW_BYTES + 3)
    kept: dict[int, int] = {}  # slot -> value, oldest first
    order: list[int] = []
    for step in range(120):
        some = chance.sample(range(slots), chance.randint(1, min(slots, 25)))
        if chance.random() < 0.2:
            backlog.drop(torch.tensor(some))
            for slot in some:
                kept.pop(slot, None)
            continue
        values = [step * 100 + place for place in range(len(some))]
        backlog.put(torch.tensor(some), states(*map(float, values)), torch.tensor(values))
        order = (order + values)[-min(most, slots) :]
        kept.update(zip(some, values, strict=True))
    alive = {slot: value for slot, value in kept.items() if value in set(order)}
    rows = backlog.rows(torch.arange(slots))
    found = (rows >= 0).nonzero().flatten().tolist()
    assert found == sorted(alive)
    if found:
        hidden, tokens = backlog.at(rows[rows >= 0])
        assert tokens.tolist() == [alive[slot] for slot in found]
        assert hidden[:, 0].tolist() == tokens.tolist()


def test_what_is_not_stored_is_zero() -> None:
    """Rows that were never written have any content, which is no token id and may not be a number."""
    backlog = Backlog(slot_count=2000, limit_bytes=100_000)
    backlog.put(torch.tensor([7]), states(0.7), torch.tensor([70]))
    hidden, tokens = backlog.at(backlog.rows(torch.tensor([7, 8])))
    assert torch.equal(hidden, states(0.7, 0.0))
    assert tokens.tolist() == [70, 0]


def test_runs_of_stored_positions_are_stretches_up_to_each_requests_length() -> None:
    spans = [Stretch(0, 10, 15), Stretch(3, 20, 25), Stretch(4, 0, 5), Stretch(6, 2, 4)]
    kept = torch.tensor([[-1, 3, 4, -1, 6], [-1, -1, -1, -1, -1], [5, 6, 7, 8, 9], [1, 2, 7, 7, 7]])
    parts, lengths = wanted(spans, kept, torch.tensor([14, 25, 3, 9]))
    assert lengths == [14, 25, 3, 9]
    assert parts == [Stretch(0, 11, 13), Stretch(4, 0, 3), Stretch(6, 2, 4)]


PARTS = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), max_size=30)


@given(PARTS, st.integers(1, 25), st.integers(1, 6))
def test_passes_are_bounded_and_in_order(found: list[tuple[int, int]], max_tokens: int, max_stretches: int) -> None:
    """A pass has room for as many stretches as the engine has request slots, and a request may have many."""
    parts = [Stretch(place, start, start + count) for place, (start, count) in enumerate(found)]
    made = passes(parts, max_tokens=max_tokens, max_stretches=max_stretches)
    assert all(0 < sum(part.end - part.start for part in one) <= max_tokens for one in made)
    assert all(len(one) <= max_stretches for one in made)
    covered = [(part.place, position) for one in made for part in one for position in range(part.start, part.end)]
    assert covered == [(part.place, position) for part in parts for position in range(part.start, part.end)]
