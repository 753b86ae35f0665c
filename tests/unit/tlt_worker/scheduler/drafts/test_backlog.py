"""States the drafter has not seen, by cache slot."""

import random

import pytest
import torch

from tlt_worker.scheduler.drafts.backlog import Backlog, Stretch, passes, stretches

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


def test_runs_of_missing_positions_are_stretches() -> None:
    missing = torch.tensor([[0, 1, 1, 0, 1], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]], dtype=torch.bool)
    assert stretches(missing) == [Stretch(0, 1, 3), Stretch(0, 4, 5), Stretch(2, 0, 5)]


def test_passes_are_bounded_and_in_order() -> None:
    parts = [Stretch(0, 0, 5), Stretch(1, 2, 9), Stretch(2, 0, 1)]
    made = passes(parts, 4)
    assert all(sum(part.end - part.start for part in one) <= 4 for one in made)
    covered = [(part.place, position) for one in made for part in one for position in range(part.start, part.end)]
    assert covered == [(part.place, position) for part in parts for position in range(part.start, part.end)]
    assert passes([], 4) == []
