"""Block drafters learn from captured states, and a block sees nothing behind its anchor."""

import random
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from tests.unit.tlt_trainer.tiny import CPU, TinyPolicy, for_block, frames_of, wild_drafter
from tlt_common.drafter.block import BlockFormat, MarkovHead
from tlt_common.drafter.meta import DrafterMeta
from tlt_trainer.data.pack import collate, plan
from tlt_trainer.drafter.block_loss import SCORED_EVERY, PackBlocks, loss_of, scores_of
from tlt_trainer.drafter.files import from_files, to_files
from tlt_trainer.drafter.kinds.block import BlockDrafter
from tlt_trainer.drafter.loss import PASS_DECAY, Pack
from tlt_trainer.drafter.score import score_of
from tlt_trainer.learner import Learner
from tlt_trainer.lease.warm_up import warm_up

HEADS = pytest.mark.parametrize("head", MarkovHead)


@pytest.fixture(scope="module")
def policy(deep_policy: TinyPolicy) -> TinyPolicy:
    return for_block(deep_policy)


def form_of(policy: TinyPolicy, head: MarkovHead) -> BlockFormat:
    assert isinstance(policy.form, BlockFormat)
    rank = 0 if head is MarkovHead.NONE else 8
    return replace(policy.form, markov_head=head, markov_rank=rank, samples_anchor=bool(rank))


def drafter_of(policy: TinyPolicy, head: MarkovHead) -> BlockDrafter:
    drafter = wild_drafter(form_of(policy, head)).double()
    assert isinstance(drafter, BlockDrafter)
    return drafter


def pack_of(policy: TinyPolicy, lengths: tuple[int, ...] = (9, 17, 30)) -> Pack:
    pack = collate([frames_of(policy, 1, seed=number, tokens=tokens)[0] for number, tokens in enumerate(lengths)], CPU)
    return replace(pack, hidden=pack.hidden.double())


def logits_of(drafter: BlockDrafter, policy: TinyPolicy, pack: Pack, entries: Tensor) -> Tensor:
    blocks = PackBlocks.behind(entries, pack, drafter.form.drafts)
    embedding, head = policy.shared.embedding.double(), policy.shared.head.double()
    with torch.no_grad():
        hidden = drafter(
            pack.next_ids[entries], pack.positions[entries] + 1, blocks.seen, pack.hidden, pack.positions, embedding
        )
        return drafter.logits(hidden, pack.next_ids[blocks.targets - 1], head)


@HEADS
def test_it_has_the_tensors_of_the_format_and_always_the_same(policy: TinyPolicy, head: MarkovHead) -> None:
    form = form_of(policy, head)
    one, two = BlockDrafter(form), BlockDrafter(form)
    assert {name: tuple(it.shape) for name, it in one.named_parameters()} == form.tensor_shapes()
    assert all(torch.equal(tensor, two.state_dict()[name]) for name, tensor in one.state_dict().items())


@HEADS
def test_what_is_written_is_read_back(policy: TinyPolicy, head: MarkovHead) -> None:
    drafter = drafter_of(policy, head)
    meta = DrafterMeta(version=1, base=0, worker_id="w", steps=1, tokens=1, held_out_top1=0)
    rounded = {name: tensor.bfloat16().float() for name, tensor in drafter.state_dict().items()}
    found = from_files(to_files(drafter.state_dict(), drafter.form, meta), drafter.form)
    assert found.keys() == rounded.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in rounded.items())


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_a_block_sees_its_context_and_nothing_else(policy: TinyPolicy, data: st.DataObject) -> None:
    """States behind its anchor, tokens behind it and other samples may be anything."""
    head = data.draw(st.sampled_from(MarkovHead))
    drafter, pack = drafter_of(policy, head), pack_of(policy)
    entry = data.draw(st.sampled_from(pack.scored.tolist()))
    offset = int(pack.layout.offsets[entry])
    before = logits_of(drafter, policy, pack, torch.tensor([entry]))
    others = torch.ones(pack.tokens, dtype=torch.bool)
    others[entry - offset : entry + 1] = False
    noise = torch.randn(pack.hidden.shape, generator=torch.Generator().manual_seed(entry)).double()
    changed = replace(pack, hidden=torch.where(others[:, None], noise, pack.hidden))
    torch.testing.assert_close(logits_of(drafter, policy, changed, torch.tensor([entry])), before)
    # Of tokens, draft k knows the anchor and, with a Markov head, those of the drafts before it.
    known = data.draw(st.integers(0, drafter.form.drafts - 1))
    ids = pack.next_ids.clone()
    ids[entry + known + 1 :] = (ids[entry + known + 1 :] + 1) % len(policy.shared.head)
    found = logits_of(drafter, policy, replace(pack, next_ids=ids), torch.tensor([entry]))
    torch.testing.assert_close(found[:, : known + 1], before[:, : known + 1])
    # What it does see matters, from the first state of its sample to the last one before the anchor.
    for place in (entry - offset, entry):
        states = pack.hidden.clone()
        states[place] = noise[place]
        assert not torch.equal(logits_of(drafter, policy, replace(pack, hidden=states), torch.tensor([entry])), before)


@HEADS
def test_a_block_in_a_pack_is_the_block_alone(policy: TinyPolicy, head: MarkovHead) -> None:
    drafter, pack = drafter_of(policy, head), pack_of(policy)
    together = logits_of(drafter, policy, pack, pack.scored)
    frames = [frames_of(policy, 1, seed=number, tokens=tokens)[0] for number, tokens in enumerate((9, 17, 30))]
    found = []
    for frame in frames:
        alone = collate([frame], CPU)
        alone = replace(alone, hidden=alone.hidden.double())
        found += [logits_of(drafter, policy, alone, entry[None]) for entry in alone.scored]
    # The last drafts of the last blocks of a sample do not exist.
    counted = PackBlocks.behind(pack.scored, pack, drafter.form.drafts).counted
    torch.testing.assert_close(together[counted], torch.cat(found)[counted])
    assert int((~counted).sum()) == 3 * sum(range(drafter.form.drafts))


@HEADS
def test_the_loss_is_the_one_defined(policy: TinyPolicy, head: MarkovHead) -> None:
    """Against the policy's own distribution, and every weight gets a gradient."""
    drafter, pack = drafter_of(policy, head), pack_of(policy)
    shared = policy.shared.embedding.double(), policy.shared.head.double()
    drafter.choice.manual_seed(7)
    found = loss_of(drafter, *shared, pack, regression_weight=0.0).loss
    found.backward()  # type: ignore[no-untyped-call]
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in drafter.parameters())
    choice = torch.randperm(len(pack.scored), generator=torch.Generator().manual_seed(7))[:7]
    last = pack.hidden[:, -32:]
    expected = 0.0
    for entry in pack.scored[choice].tolist():
        logits = logits_of(drafter, policy, pack, torch.tensor([entry]))[0]
        length = next(n for n in pack.layout.lengths if sum(m for m in pack.layout.lengths if m <= n) > entry)
        for k in range(drafter.form.drafts):
            if int(pack.layout.offsets[entry]) + 1 + k < length:
                p = functional.linear(last[entry + 1 + k], shared[1]).softmax(-1)
                expected -= PASS_DECAY**k * float(p @ logits[k].log_softmax(-1))
    assert float(found.detach()) == pytest.approx(expected * len(pack.scored) / 7)


def test_a_score_counts_what_is_reached(policy: TinyPolicy) -> None:
    """A drafter that says what the policy says keeps everything; its shares otherwise multiply to what is kept."""
    drafter, pack = drafter_of(policy, MarkovHead.VANILLA), pack_of(policy)
    shared = policy.shared.embedding.double(), policy.shared.head.double()
    with torch.no_grad():
        scores = scores_of(drafter, *shared, pack, drafts=3)
    entries = pack.scored[::SCORED_EVERY]
    assert float(scores.counts[0]) == len(entries)
    expected = torch.zeros(3)
    with torch.no_grad():
        for entry in entries.tolist():
            blocks = PackBlocks.behind(torch.tensor([entry]), pack, 3)
            q = logits_of(drafter, policy, pack, torch.tensor([entry]))[0].softmax(-1)
            reached = 1.0
            for k, target in enumerate(blocks.targets[0].tolist()):
                if blocks.counted[0, k]:
                    p = functional.linear(pack.hidden[target, -32:], shared[1]).softmax(-1)
                    expected[k] += reached * float(torch.minimum(q[k], p).sum())
                    said = int(pack.next_ids[target])
                    reached *= min(1.0, float(q[k, said] / p[said]))
    torch.testing.assert_close(scores.accepted.float(), expected)


@pytest.mark.parametrize("head", [MarkovHead.NONE, MarkovHead.RNN])
def test_it_learns_and_guesses_what_it_has_not_seen(policy: TinyPolicy, head: MarkovHead) -> None:
    rng, frames = random.Random(0), frames_of(policy, 60, seed=1)
    unseen = collate(frames_of(policy, 12, seed=2), CPU)
    learner = Learner(form_of(policy, head), CPU)
    warm_up(learner)
    learner.share(policy.shared)

    def score() -> float:
        found = score_of([learner.tally(unseen)])
        assert found is not None
        assert len(found.accepted) == learner.form.block_drafts
        return found.accept_length

    first, losses = score(), []
    while learner.counters.steps < 150:
        losses += [learner.micro_step(collate(group, CPU)) for group in plan(rng.sample(frames, 16), 512, rng)]
    assert sum(losses[-10:]) < 0.7 * sum(losses[:10])
    assert score() > first + 0.3
    again = Learner(learner.form, CPU)
    again.share(policy.shared)
    again.restore(learner.snapshot())
    assert again.tally(unseen) == learner.tally(unseen)
