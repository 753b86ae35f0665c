"""The draft layer computes what SGLang's EAGLE layer computes, and learns."""

import dataclasses
import json
import random
from typing import Any

import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor
from torch.nn import functional
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

from tests.unit.tlt_trainer.tiny import CPU, TinyPolicy, frames_of
from tlt_common.drafter import meta as metas
from tlt_common.drafter.format import DrafterFormat
from tlt_common.drafter.reading import format_of
from tlt_common.errors import ConfigError, WeightsError
from tlt_trainer.batch import collate, plan
from tlt_trainer.drafter import files
from tlt_trainer.drafter.loss import Batch, unrolled_loss
from tlt_trainer.drafter.merge import merged, share_of
from tlt_trainer.drafter.model import Drafter
from tlt_trainer.drafter.optimizer import average_weight, rate
from tlt_trainer.drafter.rope import Rope, frequencies, rope_of
from tlt_trainer.learner import Learner
from tlt_trainer.score import Score, score_of
from tlt_trainer.shared_weights import trained_format


def wild(form: DrafterFormat, seed: int = 3) -> Drafter:
    """A drafter whose every weight matters; a new one has zeros."""
    drafter, generator = Drafter(form), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in drafter.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return drafter


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


@pytest.mark.parametrize(
    "rope",
    [
        None,
        {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": 64},
        {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0},
    ],
)  # fmt: skip
def test_the_layer_is_a_llama_layer_without_its_first_norm(policy: TinyPolicy, rope: dict[str, Any] | None) -> None:
    theirs = LlamaConfig(
        **{**policy.model.config.to_dict(), "rope_parameters": rope or {"rope_type": "default", "rope_theta": 1e4}}
    )
    theirs._attn_implementation = "eager"
    layer, rotary = LlamaDecoderLayer(theirs, 0).eval(), LlamaRotaryEmbedding(theirs)
    drafter = wild(trained_format(theirs.to_dict()))
    ours = drafter.state_dict()
    layer.load_state_dict(
        {n.removeprefix("layers.0."): t for n, t in ours.items() if n.startswith("layers.")}, strict=False
    )
    layer.input_layernorm = torch.nn.Identity()  # type: ignore[assignment]
    embedded, hidden = torch.randn(2, 9, 32), torch.randn(2, 9, 32)
    positions = torch.arange(100, 109)[None].expand(2, -1)
    with torch.no_grad():
        x = functional.linear(torch.cat((embedded, hidden), -1), ours["fc.weight"])
        mask = torch.full((9, 9), float("-inf")).triu(1)[None, None].expand(2, 1, -1, -1)
        expected = layer(x, attention_mask=mask, position_embeddings=rotary(x, positions))
        found = drafter(embedded, hidden, drafter.angles(positions), causal)
    torch.testing.assert_close(found, expected[0] if isinstance(expected, tuple) else expected, rtol=1e-4, atol=1e-4)


def stepwise_state(
    drafter: Drafter, embedded: Tensor, hidden: Tensor, at: int, depth: int, positions: Tensor
) -> Tensor:
    """What drafting gives at entry `at`: the policy's states up to at - depth, then its own, one by one."""
    inputs = hidden[:, : at - depth + 1]
    for _ in range(depth + 1):
        n = inputs.shape[1]
        out = drafter(embedded[:, :n], inputs, drafter.angles(positions[:, :n]), causal)
        inputs = torch.cat((inputs, out[:, -1:]), dim=1)
    return inputs[:, -1]


def test_later_passes_see_what_drafting_sees(policy: TinyPolicy) -> None:
    drafter, T = wild(policy.form), 7
    generator = torch.Generator().manual_seed(0)
    token_ids = torch.randint(0, 48, (2, T + 1), generator=generator)
    hidden = torch.randn(2, T, 32, generator=generator)
    positions = torch.arange(5, 5 + T)[None].expand(2, -1)
    embedding, head = policy.shared.embedding.float(), policy.shared.head.float()
    states: list[Tensor] = []
    drafter.register_forward_hook(lambda _module, _args, out: states.append(out))
    with torch.no_grad():
        unrolled_loss(
            drafter, embedding, head,
            Batch(token_ids=token_ids, hidden=hidden, positions=positions, weights=torch.ones(2, T), tokens=2 * T),
        )  # fmt: skip
        passes, embedded = list(states), functional.embedding(token_ids[:, 1:], embedding)
        for depth, found in enumerate(passes):
            for at in range(depth, T):
                expected = stepwise_state(drafter, embedded, hidden, at, depth, positions)
                torch.testing.assert_close(found[:, at], expected, rtol=1e-4, atol=1e-4)


def test_the_loss_is_the_stated_sum(policy: TinyPolicy) -> None:
    batch, drafter = collate(frames_of(policy, 2, tokens=12), CPU), wild(policy.form)
    batch = dataclasses.replace(batch, hidden=batch.hidden.float())
    embedding, head = policy.shared.embedding.float(), policy.shared.head.float()
    states: list[Tensor] = []
    drafter.register_forward_hook(lambda _module, _args, out: states.append(out))
    with torch.no_grad():
        scores = unrolled_loss(drafter, embedding, head, batch)
    expected = 0.0
    for u, state in enumerate(states):
        entries = []
        for row in range(2):
            for t in range(12 - 1):
                if batch.weights[row, t] and t >= u:
                    target = (batch.hidden[row, t + 1] @ head.T).softmax(-1)
                    guess = (state[row, t] @ head.T).log_softmax(-1)
                    distance = functional.smooth_l1_loss(state[row, t], batch.hidden[row, t + 1])
                    entries.append(float(-(target * guess).sum() + 0.1 * distance))
        expected += 0.8**u * sum(entries) / len(entries)
    assert float(scores.loss) == pytest.approx(expected, rel=1e-4)


def test_padding_changes_neither_loss_nor_gradient(policy: TinyPolicy) -> None:
    (frame,) = frames_of(policy, 1, tokens=20)
    short, drafter = collate([frame], CPU), wild(policy.form)
    padded = dataclasses.replace(
        short,
        token_ids=functional.pad(short.token_ids, (0, 6), value=7),
        hidden=functional.pad(short.hidden, (0, 0, 0, 6), value=3.0),
        positions=torch.arange(26)[None],
        weights=functional.pad(short.weights, (0, 6)),
    )
    gradients = []
    for batch in (short, padded):
        drafter.zero_grad()
        batch = dataclasses.replace(batch, hidden=batch.hidden.float())  # noqa: PLW2901
        loss = unrolled_loss(drafter, policy.shared.embedding.float(), policy.shared.head.float(), batch).loss
        loss.backward()  # type: ignore[no-untyped-call]
        gradients.append([p.grad.clone() for p in drafter.parameters() if p.grad is not None])
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-4)


def test_it_learns_and_guesses_what_it_has_not_seen(policy: TinyPolicy) -> None:
    learner, rng = Learner(policy.form, CPU), random.Random(0)
    learner.share(policy.shared)
    frames, unseen = frames_of(policy, 60, seed=1), [collate(frames_of(policy, 12, seed=2), CPU)]
    losses = []
    while learner.counters.steps < 120:
        losses += [learner.micro_step(collate(group, CPU)) for group in plan(rng.sample(frames, 16), 512, rng)]
    score = score_of([learner.tally(batch) for batch in unseen])
    assert score is not None
    assert sum(losses[-10:]) < 0.5 * sum(losses[:10])
    assert score.top1 > 0.6
    assert score.accept_length > 2.0


def test_a_loss_that_is_not_finite_is_refused_and_changes_nothing(policy: TinyPolicy) -> None:
    learner = Learner(policy.form, CPU)
    learner.share(policy.shared)
    before, batch = learner.weights(), collate(frames_of(policy, 8), CPU)
    with pytest.raises(WeightsError, match="the loss is"):
        learner.micro_step(dataclasses.replace(batch, hidden=batch.hidden * float("nan")))
    assert all(torch.equal(before[name], tensor) for name, tensor in learner.weights().items())


def test_the_layer_has_the_tensors_of_the_format(policy: TinyPolicy) -> None:
    found = {name: tuple(parameter.shape) for name, parameter in Drafter(policy.form).named_parameters()}
    assert found == policy.form.tensor_shapes()


def test_trainers_from_scratch_begin_equal(policy: TinyPolicy) -> None:
    one, two = Drafter(policy.form).state_dict(), Drafter(policy.form).state_dict()
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_a_drafter_is_written_as_sglang_loads_it(policy: TinyPolicy) -> None:
    meta = metas.DrafterMeta(version=3, base=2, worker_id="w", steps=5, tokens=6, held_out_top1=0.7)
    weights = Learner(policy.form, CPU).weights()
    written = files.to_files(weights, policy.form, meta)
    assert list(written)[-1] == metas.META_FILE
    assert json.loads(written["config.json"])["architectures"] == ["LlamaForCausalLMEagle"]
    target = json.loads((policy.directory / "config.json").read_text())
    assert format_of(json.loads(written["config.json"]), target) == policy.form
    tensors = load(written[metas.WEIGHTS_FILE])
    attention = {f"layers.0.self_attn.{p}_proj.weight" for p in "qkvo"}
    mlp = {f"layers.0.mlp.{p}_proj.weight" for p in ("gate", "up", "down")}
    assert set(tensors) == attention | mlp | {"fc.weight", "fc.bias", "layers.0.post_attention_layernorm.weight"}
    assert not tensors["fc.bias"].any()
    assert metas.meta_of(written) == meta
    for name, tensor in files.from_files(written, policy.form).items():
        assert torch.equal(tensor, weights[name].bfloat16().float())


def test_a_drafter_that_does_not_fit_names_the_tensor(policy: TinyPolicy) -> None:
    meta = metas.DrafterMeta(version=1, base=0, worker_id="w", steps=0, tokens=0, held_out_top1=0)
    good = Learner(policy.form, CPU).weights()
    for wrong in (torch.zeros(3, 3), torch.full((32, 64), float("nan"))):
        written = files.to_files(good, policy.form, meta)
        tensors = {**load(written[metas.WEIGHTS_FILE]), "fc.weight": wrong}
        written[metas.WEIGHTS_FILE] = save(tensors)
        with pytest.raises(WeightsError, match=r"fc\.weight"):
            files.from_files(written, policy.form)
    with pytest.raises(WeightsError, match="readable"):
        files.from_files({metas.WEIGHTS_FILE: b"nonsense"}, policy.form)
    with pytest.raises(WeightsError, match=r"meta\.json is missing or invalid"):
        metas.meta_of({metas.META_FILE: b"{}"})


def test_shapes_are_read_as_every_version_of_transformers_writes_them() -> None:
    config = {"vocab_size": 10, "hidden_size": 8, "intermediate_size": 12, "num_attention_heads": 2}
    assert trained_format(config).kv_heads == 2
    assert rope_of(trained_format({**config, "rope_theta": 7.0}).rope) == Rope(theta=7.0)
    assert (
        trained_format({**config, "rope_parameters": {"rope_type": "default", "rope_theta": 7.0}}).rope
        == trained_format({**config, "rope_theta": 7.0}).rope
    )
    stretched = {**config, "rope_theta": 9.0, "rope_scaling": {"type": "linear", "factor": 2.0}}
    assert rope_of(trained_format(stretched).rope) == Rope(theta=9.0, type="linear", factor=2.0)
    written = trained_format(stretched).config()
    for dropped in ("rope_parameters", "rope_scaling"):  # what transformers 4 reads, and what 5 does
        kept = {key: value for key, value in written.items() if key != dropped}
        assert trained_format(kept) == trained_format(stretched)
    for wrong in ({"hidden_act": "gelu"}, {"rope_scaling": {"rope_type": "yarn"}}):
        with pytest.raises(ConfigError, match="accepted"):
            trained_format({**config, **wrong})
    with pytest.raises(ConfigError, match="vocab_size"):
        trained_format({"num_attention_heads": 2, "hidden_size": 8})


def test_a_merge_lies_between_both_by_their_tokens() -> None:
    own, newest = {"w": torch.tensor([4.0])}, {"w": torch.tensor([0.0])}
    assert merged(own, newest, share_of(30, 10))["w"].item() == 3.0
    assert share_of(0, 10) == 0.0
    assert share_of(10, 0) == share_of(10, -5) == 0.5


def test_rates_warm_up_cool_down_and_stay() -> None:
    assert [round(rate(step, 0), 2) for step in (0, 4, 9, 99)] == [0.1, 0.5, 1.0, 1.0]
    assert rate(99, 75_000) == pytest.approx(0.625)
    assert rate(99, 150_000) == rate(99, 10**9) == pytest.approx(0.25)
    assert average_weight(0) == 1.0
    assert average_weight(10**6) == 0.02


def test_a_score_says_what_a_chain_would_yield() -> None:
    assert Score(hits=(0.5, 0.5, 0.5)).accept_length == 1.875
    assert score_of([]) is None


def test_long_waves_are_stretched_and_short_ones_kept() -> None:
    plain = frequencies(Rope(), 64)
    stretched = frequencies(Rope(type="llama3", factor=8.0, original_positions=64), 64)
    assert torch.equal(stretched[0], plain[0])
    torch.testing.assert_close(stretched[-1], plain[-1] / 8)


def test_training_needs_a_policy(policy: TinyPolicy) -> None:
    with pytest.raises(WeightsError, match="embedding and head are not loaded"):
        Learner(policy.form, CPU).micro_step(collate(frames_of(policy, 1), CPU))
