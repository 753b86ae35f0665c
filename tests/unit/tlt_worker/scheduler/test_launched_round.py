"""What is copied of a round at its launch, and what it is taken for when the round is processed."""

from types import SimpleNamespace
from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.arm import chain
from tlt_common.domain.hidden import CapturePolicy
from tlt_common.domain.ids import DrafterVersion, PolicyVersion
from tlt_worker.scheduler.arms.choice import ArmChoice
from tlt_worker.scheduler.captured_rows import stretches_of
from tlt_worker.scheduler.launched_round import LaunchedRound, round_of
from tlt_worker.scheduler.outputs import Outputs

EVERYONE = CapturePolicy(enabled=True)
SIZE = 4


def request(name: str, prompt: int, response: int, *, capture: bool = True) -> Any:
    custom = {"tlt_capture": capture}
    ids = list(range(1000, 1000 + response))
    return SimpleNamespace(
        rid=name,
        origin_input_ids=list(range(prompt)),
        output_ids=ids,
        output_ids_through_stop=ids,
        sampling_params=SimpleNamespace(custom_params=custom),
    )


def batch(reqs: list[Any], *, extend: list[tuple[int, int]] | None = None) -> Any:
    """`extend`: (computed before, computed now) of each prompt; None: the batch decodes."""
    return SimpleNamespace(
        reqs=reqs,
        prefix_lens=[low for low, _ in extend or ()],
        extend_lens=[count for _, count in extend or ()],
    )


def launched(steps: int | None) -> LaunchedRound:
    choice = None
    if steps is not None:
        choice = ArmChoice(arm=chain(steps), drafted=None, launched_s=0.0, drafter_version=DrafterVersion(1))
    return LaunchedRound(choice=choice, version=PolicyVersion(3))


def states(rows: int) -> torch.Tensor:
    return torch.arange(rows, dtype=torch.float32).view(-1, 1).expand(-1, SIZE).contiguous()


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4)), min_size=1, max_size=6))
def test_a_round_keeps_its_own_states_when_the_next_one_overwrites_them(kept: list[tuple[bool, int]]) -> None:
    """Chains of 3: 4 rows a request, of which the accepted drafts and the bonus token come first."""
    reqs = [request(str(n), prompt=5, response=10, capture=capture) for n, (capture, _) in enumerate(kept)]
    buffer, made = states(4 * len(reqs)), launched(3)
    made.take(Outputs(read=buffer, nodes=4), batch(reqs), EVERYONE)
    buffer.fill_(torch.nan)  # the next round
    for req, (_, count) in zip(reqs, kept, strict=True):
        req.output_ids_through_stop += list(range(2000, 2000 + count))
    found = {one.request_id: one for one in stretches_of(reqs, made.rows, [10] * len(reqs))}
    assert set(found) == {str(n) for n, (capture, count) in enumerate(kept) if capture and count}
    for name, one in found.items():
        assert one.position == 5 + 10 - 1
        assert one.token_ids == [1009, *range(2000, 2000 + one.count)]
        assert made.states is not None
        mine = made.states[one.first_row : one.first_row + one.count, 0]
        assert mine.tolist() == [4 * int(name) + offset for offset in range(one.count)]


def test_states_of_prompts_are_at_their_positions() -> None:
    reqs = [request("a", 6, 0), request("declines", 4, 0, capture=False), request("b", 9, 0)]
    made = launched(None)
    made.take(Outputs(read=states(4 + 4 + 5)), batch(reqs, extend=[(2, 4), (0, 4), (0, 5)]), EVERYONE)
    reqs[0].output_ids_through_stop.append(7)  # the prompt is complete; that of b continues
    first, second = stretches_of(reqs, made.rows, [0, 0, 0])
    assert (first.position, first.token_ids, first.first_row) == (2, [2, 3, 4, 5, 7], 0)
    assert (second.position, second.token_ids, second.first_row) == (0, [0, 1, 2, 3, 4, 5], 4)
    assert made.states is not None
    assert made.states[:, 0].tolist() == [0, 1, 2, 3, 8, 9, 10, 11, 12]


@given(st.integers(1, 600), st.integers(8, 256), st.data())
def test_of_a_prompt_only_what_shares_a_frame_with_the_response_is_copied(
    prompt: int, frame_tokens: int, data: st.DataObject
) -> None:
    """In chunks as they come, behind a cached prefix."""
    policy, req = CapturePolicy(enabled=True, frame_tokens=frame_tokens), request("a", prompt, 0)
    start, kept = data.draw(st.integers(0, prompt - 1)), list[int]()
    first = start
    while start < prompt:
        count = data.draw(st.integers(1, prompt - start))
        made = launched(None)
        made.take(Outputs(read=states(count)), batch([req], extend=[(start, count)]), policy)
        for rows in made.rows:
            assert rows.position is not None
            assert rows.row == rows.position - start
            kept += range(rows.position, rows.position + rows.count)
        start += count
    assert kept == list(range(max(first, prompt - frame_tokens // 2), prompt))


def test_trees_copy_no_more_than_can_be_accepted() -> None:
    made = launched(3)
    made.take(Outputs(read=states(2 * 8), nodes=8), batch([request("a", 2, 1), request("b", 2, 1)]), EVERYONE)
    assert made.states is not None
    assert made.states[:, 0].tolist() == [0, 1, 2, 3, 8, 9, 10, 11]


@given(st.lists(st.booleans(), min_size=1, max_size=4), st.integers(1, 8))
def test_last_states_are_those_of_the_same_tokens(kept: list[bool], nodes: int) -> None:
    """Of trees, what the drafter reads begins with the accepted path, and the last states are in the tree's order."""
    reqs = [request(str(n), 2, 1, capture=capture) for n, capture in enumerate(kept)]
    depth = min(4, nodes)
    paths = torch.stack([torch.randperm(nodes)[:depth] + n * nodes for n in range(len(reqs))]).to(torch.int32)
    computed, read = states(nodes * len(reqs)), states(nodes * len(reqs))
    if nodes > depth:
        read.view(len(reqs), nodes, SIZE)[:, :depth] = computed[paths.long()]
        paths[:, depth - 1] = -1  # not accepted
    made = launched(3)
    made.take(Outputs(read=read, last=computed + 0.5, path=paths, nodes=nodes), batch(reqs), EVERYONE)
    if not any(kept):
        assert made.states is None
        return
    assert made.states is not None
    assert made.states.shape == (depth * sum(kept), 2 * SIZE)
    accepted = (made.states.view(-1, depth, 2 * SIZE)[:, : depth - 1] if nodes > depth else made.states).reshape(
        -1, 2 * SIZE
    )
    assert torch.equal(accepted[:, :SIZE] + 0.5, accepted[:, SIZE:])


def test_what_nobody_wants_is_not_copied() -> None:
    made = launched(0)
    made.take(Outputs(read=states(1)), batch([request("a", 2, 1)]), CapturePolicy(enabled=False))
    assert made.states is None


def test_a_result_carries_its_round() -> None:
    result, made = SimpleNamespace(), launched(None)
    assert round_of(result) is None
    made.attach(result)
    assert round_of(result) is made
