"""The EAGLE-3 layer computes what EAGLE-3 drafts with, and its draft tokens can change while it learns."""

import random

import pytest
import torch
from torch.nn import functional
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

from tests.unit.tlt_trainer.tiny import CPU, DRAFT_TOKENS, TinyPolicy, causal, frames_of, wild
from tlt_common.domain.ids import DrafterVersion
from tlt_common.drafter.tensors import HEAD, MAP
from tlt_common.errors import WeightsError
from tlt_trainer.data.pack import collate, plan
from tlt_trainer.drafter.kinds.eagle3 import PASSES, Eagle3Drafter
from tlt_trainer.drafter.loss import unrolled_loss
from tlt_trainer.drafter.merge import fitted, merge_of
from tlt_trainer.drafter.score import score_of
from tlt_trainer.drafter.vocabulary import map_of, require_tokens, rows_for, tokens_of
from tlt_trainer.learned import Published
from tlt_trainer.learner import Learner
from tlt_trainer.lease.warm_up import warm_up

FIRST, LAST = torch.arange(DRAFT_TOKENS), torch.arange(48 - DRAFT_TOKENS, 48)


@pytest.fixture
def learner(deep_policy: TinyPolicy) -> Learner:
    learner = Learner(deep_policy.form, CPU)
    learner.share(deep_policy.shared)
    return learner


def test_the_layer_is_a_llama_layer_on_embedding_and_state(deep_policy: TinyPolicy) -> None:
    config = LlamaConfig(**deep_policy.model.config.to_dict())
    config._attn_implementation = "eager"
    layer, rotary, drafter = LlamaDecoderLayer(config, 0).eval(), LlamaRotaryEmbedding(config), wild(deep_policy.form)
    for name in ("q_proj", "k_proj", "v_proj"):
        setattr(layer.self_attn, name, torch.nn.Linear(64, getattr(layer.self_attn, name).out_features, bias=False))
    ours = drafter.state_dict()
    layer.load_state_dict(
        {name.removeprefix("layers.0."): t for name, t in ours.items() if name.startswith("layers.")}, strict=False
    )
    embedded, captured, positions = torch.randn(9, 32), torch.randn(9, 96), torch.arange(100, 109)

    def normed(x: torch.Tensor, name: str) -> torch.Tensor:
        return functional.rms_norm(x, (32,), ours[name], deep_policy.form.norm_eps)

    with torch.no_grad():
        x = captured[:, :64] @ ours["fc.weight"].T
        norms = "layers.0.input_layernorm.weight", "layers.0.hidden_norm.weight"
        both = torch.cat((normed(embedded, norms[0]), normed(x, norms[1])), -1)[None]
        mask = torch.full((9, 9), float("-inf")).triu(1)[None, None]
        attended = layer.self_attn(both, attention_mask=mask, position_embeddings=rotary(both, positions[None]))[0]
        expected = x + attended[0]
        expected = expected + layer.mlp(layer.post_attention_layernorm(expected))
        found = drafter(embedded, drafter.begin(captured), drafter.angles(positions), causal)
        logits = drafter.logits(found, deep_policy.shared.head.float())
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(logits, normed(expected, "norm.weight") @ ours[HEAD].T, rtol=1e-4, atol=1e-3)


def test_the_layer_has_the_tensors_of_the_format_and_always_the_same(deep_policy: TinyPolicy) -> None:
    one, two = Eagle3Drafter(deep_policy.form), Eagle3Drafter(deep_policy.form)
    assert {name: tuple(it.shape) for name, it in one.named_parameters()} == deep_policy.form.tensor_shapes()
    assert all(torch.equal(tensor, two.state_dict()[name]) for name, tensor in one.state_dict().items())


def test_it_learns_and_guesses_what_it_has_not_seen(deep_policy: TinyPolicy, learner: Learner) -> None:
    rng, frames = random.Random(0), frames_of(deep_policy, 60, seed=1)
    unseen = [collate(frames_of(deep_policy, 12, seed=2), CPU)]
    learner.choose(FIRST)
    losses = []
    while learner.counters.steps < 100:
        losses += [learner.micro_step(collate(group, CPU)) for group in plan(rng.sample(frames, 16), 512, rng)]
    score = score_of(learner.tally(pack) for pack in unseen)
    assert score is not None
    assert len(score.hits) == PASSES
    assert sum(losses[-10:]) < 0.7 * sum(losses[:10])
    assert score.top1 > 0.35  # of 0.83 that can be drafted
    assert score.accept_length > 1.3


def test_a_token_that_cannot_be_drafted_is_never_a_hit(deep_policy: TinyPolicy) -> None:
    pack, drafter = collate(frames_of(deep_policy, 8), CPU), wild(deep_policy.form)
    assert isinstance(drafter, Eagle3Drafter)
    with torch.no_grad():
        targets = drafter.targets(pack.hidden.float(), deep_policy.shared.head.float())
        best = (pack.hidden[:, -32:].float() @ deep_policy.shared.head.float().T).argmax(-1)
    covered = torch.isin(best, drafter.tokens)
    assert 0 < int(covered.sum()) < len(best)
    assert torch.equal(targets.best >= 0, covered)
    assert torch.equal(drafter.tokens[targets.best[covered]], best[covered])
    assert bool((targets.shares.sum(-1) < 1).any())


def test_passes_can_be_chosen(deep_policy: TinyPolicy) -> None:
    pack = collate(frames_of(deep_policy, 2), CPU)
    learner = Learner(deep_policy.form, CPU, passes=2, drafts=5)
    learner.share(deep_policy.shared)
    learner.choose(FIRST)
    assert len(learner.tally(pack).hits) == 5
    drafter, shared = wild(deep_policy.form), (deep_policy.shared.embedding, deep_policy.shared.head)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        two, all_of_them = (unrolled_loss(drafter, *shared, pack, passes=passes) for passes in (2, None))
    assert len(two.hits) == 2
    assert len(all_of_them.hits) == PASSES
    assert 0 < float(two.loss) < float(all_of_them.loss)


def test_training_needs_draft_tokens(deep_policy: TinyPolicy, learner: Learner) -> None:
    with pytest.raises(WeightsError, match="tokens are not chosen yet"):
        learner.micro_step(collate(frames_of(deep_policy, 1), CPU))


def test_tokens_that_stay_keep_what_was_learned_of_them(deep_policy: TinyPolicy, learner: Learner) -> None:
    learner.choose(FIRST)
    pack = collate(frames_of(deep_policy, 8), CPU)
    for _ in range(3):
        learner.micro_step(pack)
    before = learner.snapshot()
    learner.choose(LAST)
    after = learner.snapshot()
    kept, gained = 48 - 2 * (48 - DRAFT_TOKENS), 48 - DRAFT_TOKENS
    assert torch.equal(tokens_of(after.weights[MAP]), LAST)
    for one, other in ((before.weights, after.weights), (before.average, after.average)):
        assert torch.equal(other[HEAD][:kept], one[HEAD][gained:])
        assert torch.equal(other[HEAD][kept:], deep_policy.shared.head[DRAFT_TOKENS:].float())
    moments = f"{HEAD}/exp_avg"
    assert bool(before.optimizer[moments].any())
    assert torch.equal(after.optimizer[moments][:kept], before.optimizer[moments][gained:])
    assert not bool(after.optimizer[moments][kept:].any())
    learner.micro_step(pack)


def test_who_follows_a_drafter_with_other_tokens_keeps_what_the_optimizer_knows_of_those_that_stay(
    deep_policy: TinyPolicy, learner: Learner
) -> None:
    pack = collate(frames_of(deep_policy, 8), CPU)
    learner.choose(FIRST)
    for _ in range(3):
        learner.micro_step(pack)
    before, newest = learner.snapshot(), wild(deep_policy.form).state_dict() | {MAP: map_of(LAST)}
    learner.follow(Published(version=DrafterVersion(4), weights=newest, steps=9, tokens=900), newest)
    after, kept = learner.snapshot(), 48 - 2 * (48 - DRAFT_TOKENS)
    assert torch.equal(tokens_of(after.weights[MAP]), LAST)
    assert torch.equal(after.weights[HEAD], newest[HEAD])
    moments = f"{HEAD}/exp_avg"
    assert torch.equal(after.optimizer[moments][:kept], before.optimizer[moments][48 - DRAFT_TOKENS :])
    assert not bool(after.optimizer[moments][kept:].any())
    learner.micro_step(pack)


def test_a_snapshot_without_draft_tokens_is_not_trained(deep_policy: TinyPolicy, learner: Learner) -> None:
    pack, new = collate(frames_of(deep_policy, 1), CPU), Learner(deep_policy.form, CPU).snapshot()
    learner.choose(FIRST)
    learner.micro_step(pack)
    learner.restore(new)
    assert learner.lacks_tokens
    with pytest.raises(WeightsError, match="tokens are not chosen yet"):
        learner.micro_step(pack)


@pytest.mark.parametrize("chosen", [False, True])
def test_a_warm_up_changes_nothing(deep_policy: TinyPolicy, chosen: bool) -> None:
    learner = Learner(deep_policy.form, CPU)
    if chosen:
        learner.share(deep_policy.shared)
        learner.choose(LAST)
    before = learner.snapshot()
    warm_up(learner)
    after = learner.snapshot()
    assert learner.lacks_tokens is not chosen
    unchosen = set() if chosen else {HEAD}  # rows of no token
    for name in before.weights.keys() - unchosen:
        assert torch.equal(before.weights[name], after.weights[name])
        assert torch.equal(before.average[name], after.average[name])
    assert (after.counters, after.optimizer) == (before.counters, {})


def test_a_merge_has_the_newest_drafters_tokens() -> None:
    own = {HEAD: torch.tensor([[1.0], [2.0]]), MAP: map_of(torch.tensor([3, 5])), "w": torch.tensor([4.0])}
    newest = {HEAD: torch.tensor([[10.0], [20.0]]), MAP: map_of(torch.tensor([5, 7])), "w": torch.tensor([0.0])}
    fit = fitted(own, newest)
    found = {name: merge_of(fit[name], newest[name], None, 0.5) for name in newest}
    assert found["w"].item() == 2.0
    assert torch.equal(found[MAP], newest[MAP])
    assert found[HEAD].flatten().tolist() == [6.0, 20.0]


def test_rows_follow_their_tokens() -> None:
    rows, otherwise = torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[-1.0], [-2.0]])
    found = rows_for(torch.tensor([4, 9]), rows, torch.tensor([-1, 4, 6]), otherwise)
    assert found.flatten().tolist() == [2.0, -2.0]


@pytest.mark.parametrize(
    ("tokens", "message"),
    [([0, 1, 8], "tokens 0 to 7"), ([-1, 1, 2], "tokens 0 to 7"), ([3, 1, 3], "tokens must be unique")],
)
def test_maps_that_are_none_are_refused(tokens: list[int], message: str) -> None:
    with pytest.raises(WeightsError, match=message):
        require_tokens(map_of(torch.tensor(tokens)), 8)
