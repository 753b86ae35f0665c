"""The loss is what drafting would see, sample by sample, however samples are packed."""

import dataclasses
import itertools

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from tests.unit.tlt_trainer.tiny import CPU, TinyPolicy, causal, frame, precise, wild
from tlt_trainer.data.frame import TrainingFrame
from tlt_trainer.data.pack import collate
from tlt_trainer.drafter.kinds.draft_model import DraftModel
from tlt_trainer.drafter.kinds.eagle3 import Eagle3Drafter
from tlt_trainer.drafter.loss import Pack, unrolled_loss


@pytest.fixture(params=["eagle", "eagle3"])
def policy(request: pytest.FixtureRequest, policy: TinyPolicy, deep_policy: TinyPolicy) -> TinyPolicy:
    """A policy for each kind of drafter."""
    return deep_policy if request.param == "eagle3" else policy


def random_frames(policy: TinyPolicy, lengths: list[int], *, prompt: int = 0, seed: int = 0) -> list[TrainingFrame]:
    """Frames of a prompt of `prompt` tokens, with random states."""
    generator, found = torch.Generator().manual_seed(seed), []
    for number, length in enumerate(lengths):
        ids = torch.randint(0, 48, (length + 1,), generator=generator, dtype=torch.int32)
        states = torch.randn(length, (len(policy.form.layers) + 1) * policy.form.hidden_size, generator=generator)
        found.append(dataclasses.replace(frame(number, length, prompt=prompt), token_ids=ids, hidden=states))
    return found


def packed(policy: TinyPolicy, lengths: list[int], *, prompt: int = 0, seed: int = 0) -> Pack:
    """A pack in float32."""
    pack = collate(random_frames(policy, lengths, prompt=prompt, seed=seed), CPU)
    return dataclasses.replace(pack, hidden=pack.hidden.float())


def spans(pack: Pack) -> list[slice]:
    """The samples' places in the pack."""
    ends = list(itertools.accumulate(pack.layout.lengths))
    return [slice(end - length, end) for end, length in zip(ends, pack.layout.lengths, strict=True)]


def gradients(drafter: DraftModel, policy: TinyPolicy, pack: Pack) -> dict[str, Tensor]:
    drafter.zero_grad()
    loss = unrolled_loss(drafter, policy.shared.embedding.double(), policy.shared.head.double(), pack).loss
    loss.backward()  # type: ignore[no-untyped-call]
    return {name: p.grad.clone() for name, p in drafter.named_parameters() if p.grad is not None}


def stepwise_state(
    drafter: DraftModel, embedded: Tensor, hidden: Tensor, at: int, depth: int, positions: Tensor
) -> Tensor:
    """What drafting gives at entry `at`: the policy's states up to at - depth, then its own, one by one."""
    inputs = drafter.begin(hidden[: at - depth + 1])
    for _ in range(depth + 1):
        n = len(inputs)
        out = drafter(embedded[:n], inputs, drafter.angles(positions[:n]), causal)
        inputs = torch.cat((inputs, out[-1:]))
    return inputs[-1]


def test_later_passes_see_what_drafting_sees(policy: TinyPolicy) -> None:
    drafter = wild(policy.form)
    pack = packed(policy, [5, 7, 7, 3], seed=0)
    pack = dataclasses.replace(pack, positions=pack.positions + 5)
    embedding, head = policy.shared.embedding.float(), policy.shared.head.float()
    states: list[Tensor] = []
    drafter.register_forward_hook(lambda _module, _args, out: states.append(out))
    with torch.no_grad():
        unrolled_loss(drafter, embedding, head, pack)
        passes, embedded = list(states), functional.embedding(pack.next_ids, embedding)
        for depth, found in enumerate(passes):
            for rows in spans(pack):
                for at in range(depth, rows.stop - rows.start):
                    expected = stepwise_state(
                        drafter, embedded[rows], pack.hidden[rows], at, depth, pack.positions[rows]
                    )
                    torch.testing.assert_close(found[rows][at], expected, rtol=1e-4, atol=1e-4)


def test_the_loss_is_the_stated_sum(policy: TinyPolicy) -> None:
    pack, drafter = packed(policy, [12, 9], prompt=4), wild(policy.form)
    head = policy.shared.head.float()
    states: list[Tensor] = []
    drafter.register_forward_hook(lambda _module, _args, out: states.append(out))
    with torch.no_grad():
        scores = unrolled_loss(drafter, policy.shared.embedding.float(), head, pack)
    expected = 0.0
    for u, state in enumerate(states):
        for rows in spans(pack):
            for t in range(max(2, u), rows.stop - rows.start - 1):  # entry 2 predicts the first token after the prompt
                guess, truth = state[rows][t], pack.hidden[rows][t + 1][-policy.form.hidden_size :]
                shares = (truth @ head.T).softmax(-1)
                if isinstance(drafter, Eagle3Drafter):
                    normed = functional.rms_norm(guess, guess.shape, drafter.norm.weight, policy.form.norm_eps)
                    said = (normed @ drafter.lm_head.weight.T).log_softmax(-1).detach()
                    expected -= 0.8**u * sum(
                        float(shares[token] * said[place]) for place, token in enumerate(drafter.tokens)
                    )
                else:
                    entropy = -(shares * (guess @ head.T).log_softmax(-1)).sum()
                    expected += 0.8**u * float(entropy + 3.0 * functional.smooth_l1_loss(guess, truth))
    assert float(scores.loss) == pytest.approx(expected, rel=1e-4)


sizes = st.lists(st.integers(1, 12), min_size=1, max_size=7)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes, st.integers(0, 6), st.integers(0, 100))
def test_gradients_of_a_pack_are_the_sum_of_its_samples(
    policy: TinyPolicy, lengths: list[int], prompt: int, seed: int
) -> None:
    drafter = wild(policy.form).double()
    frames = random_frames(policy, lengths, prompt=prompt, seed=seed)
    together = gradients(drafter, policy, precise(collate(frames, CPU)))
    alone = [gradients(drafter, policy, precise(collate([frame], CPU))) for frame in frames]
    for name, gradient in together.items():
        torch.testing.assert_close(gradient, sum(one[name] for one in alone), rtol=1e-9, atol=1e-9)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes, st.data())
def test_a_sample_changes_no_other_samples_loss(policy: TinyPolicy, lengths: list[int], data: st.DataObject) -> None:
    drafter, pack = wild(policy.form).double(), precise(packed(policy, lengths, seed=1))
    changed = data.draw(st.integers(0, len(lengths) - 1))
    rows = spans(pack)[changed]
    hidden, next_ids = pack.hidden.clone(), pack.next_ids.clone()
    hidden[rows] = torch.randn(hidden[rows].shape, generator=torch.Generator().manual_seed(2), dtype=hidden.dtype)
    next_ids[rows] = (next_ids[rows] + 1) % 48
    other = dataclasses.replace(pack, hidden=hidden, next_ids=next_ids)
    shared = policy.shared.embedding.double(), policy.shared.head.double()
    for place, span in enumerate(spans(pack)):
        scored = pack.scored[(pack.scored >= span.start) & (pack.scored < span.stop)]
        with torch.no_grad():
            before, after = (
                float(unrolled_loss(drafter, *shared, dataclasses.replace(one, scored=scored)).loss)
                for one in (pack, other)
            )
        assert (before == after) == (place != changed or not len(scored))
