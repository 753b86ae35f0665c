"""The draft layer computes what SGLang's EAGLE layer computes, and learns."""

import dataclasses
import json
import random
from typing import Any

import pytest
import torch
from safetensors.torch import load, save
from torch.nn import functional
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

from tests.unit.tlt_trainer.tiny import CPU, TinyPolicy, causal, frames_of, wild
from tlt_common.drafter import meta as metas
from tlt_common.drafter.reading import format_of
from tlt_common.errors import ConfigError, WeightsError
from tlt_trainer.data.pack import collate, plan
from tlt_trainer.drafter import files
from tlt_trainer.drafter.kinds.eagle import Drafter
from tlt_trainer.drafter.merge import merge_of, share_of
from tlt_trainer.drafter.optimizer import average_weight, rate
from tlt_trainer.drafter.score import Score, score_of
from tlt_trainer.drafter.shared_weights import trained_format
from tlt_trainer.learner import Learner


@pytest.mark.parametrize(
    "rope",
    [
        None,
        {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": 64},
        {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0},
        {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 32},
        {"rope_type": "yarn", "rope_theta": 1e6, "factor": 8.0, "beta_fast": 16.0, "beta_slow": 2.0,
         "mscale": 0.7, "mscale_all_dim": 0.3, "truncate": False},
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
    embedded, hidden = torch.randn(9, 32), torch.randn(9, 32)
    positions = torch.arange(100, 109)
    with torch.no_grad():
        x = functional.linear(torch.cat((embedded, hidden), -1), ours["fc.weight"])
        mask = torch.full((9, 9), float("-inf")).triu(1)[None, None]
        expected = layer(x[None], attention_mask=mask, position_embeddings=rotary(x, positions[None]))
        found = drafter(embedded, hidden, drafter.angles(positions), causal)
    torch.testing.assert_close(
        found[None], expected[0] if isinstance(expected, tuple) else expected, rtol=1e-4, atol=1e-4
    )


def test_it_learns_and_guesses_what_it_has_not_seen(policy: TinyPolicy) -> None:
    learner, rng = Learner(policy.form, CPU), random.Random(0)
    learner.share(policy.shared)
    frames, unseen = frames_of(policy, 60, seed=1), [collate(frames_of(policy, 12, seed=2), CPU)]
    losses = []
    while learner.counters.steps < 120:
        losses += [learner.micro_step(collate(group, CPU)) for group in plan(rng.sample(frames, 16), 512, rng)]
    score = score_of([learner.tally(pack) for pack in unseen])
    assert score is not None
    assert sum(losses[-10:]) < 0.5 * sum(losses[:10])
    assert score.top1 > 0.6
    assert score.accept_length > 2.0


def test_a_loss_that_is_not_finite_is_refused_and_changes_nothing(policy: TinyPolicy) -> None:
    learner = Learner(policy.form, CPU)
    learner.share(policy.shared)
    before, pack = learner.weights(), collate(frames_of(policy, 8), CPU)
    with pytest.raises(WeightsError, match="the loss is"):
        learner.micro_step(dataclasses.replace(pack, hidden=pack.hidden * float("nan")))
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
    assert trained_format({**config, "rope_theta": 7.0}).rope == {"rope_type": "default", "rope_theta": 7.0}
    assert (
        trained_format({**config, "rope_parameters": {"rope_type": "default", "rope_theta": 7.0}}).rope
        == trained_format({**config, "rope_theta": 7.0}).rope
    )
    stretched = {**config, "rope_theta": 9.0, "rope_scaling": {"type": "linear", "factor": 2.0}}
    assert trained_format(stretched).rope == {"rope_type": "linear", "rope_theta": 9.0, "factor": 2.0}
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
    own, newest, base = torch.tensor([4.0]), torch.tensor([8.0]), torch.tensor([2.0])
    assert merge_of(own, newest, base, share_of(30, 10)).item() == 9.5
    assert merge_of(own, newest, base, share_of(10, 30)).item() == 8.5
    assert merge_of(own, newest, None, 0.25).item() == 7.0
    assert share_of(0, 10) == 0.0
    assert share_of(10, 0) == share_of(10, -5) == 0.5


def test_rates_warm_up_and_cool_down() -> None:
    assert [round(rate(step, 0), 2) for step in (0, 4, 9, 99)] == [0.1, 0.5, 1.0, 1.0]
    assert rate(99, 75_000) == pytest.approx(0.625)
    assert rate(99, 150_000) == pytest.approx(0.25)
    assert rate(99, 300_000) == pytest.approx(0.125)
    assert rate(99, 10**6) == rate(99, 10**9) == pytest.approx(0.05)


def test_a_trained_drafter_goes_on_slowly_where_training_has_an_end() -> None:
    assert rate(99, 0, 100_000) == pytest.approx(1.0)
    assert rate(99, 0, 100_000, before=300_000) == pytest.approx(0.125)
    assert rate(99, 100_000, 100_000, before=300_000) == rate(99, 100_000, 100_000, before=10**7) == pytest.approx(0.05)


def test_the_average_spans_a_share_of_the_steps() -> None:
    assert average_weight(0) == 1.0
    assert average_weight(10**6) == 0.02


def test_a_score_says_what_a_chain_would_yield() -> None:
    assert Score(hits=(0.9, 0.9, 0.9), accepted=(0.5, 0.5, 0.5)).accept_length == 1.875
    assert score_of([]) is None


def test_training_needs_a_policy(policy: TinyPolicy) -> None:
    with pytest.raises(WeightsError, match="embedding and head are not loaded"):
        Learner(policy.form, CPU).micro_step(collate(frames_of(policy, 1), CPU))
