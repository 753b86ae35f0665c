from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, LlamaForCausalLM

from countdown.model import (
    WEIGHTS_FILE,
    deepen,
    deepen_state,
    new_policy,
    save_checkpoint,
    write_served_checkpoint,
)
from countdown.settings import LAYERS, SERVED_LAYERS
from countdown.vocabulary import EOS_ID, VOCABULARY_SIZE


def scrambled_policy(seed: int = 0) -> LlamaForCausalLM:
    """An untrained policy whose layers do something."""
    model = new_policy(seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.05)
    model.train(mode=False)
    return model


@torch.inference_mode()
def logits(model: LlamaForCausalLM) -> torch.Tensor:
    ids = torch.randint(VOCABULARY_SIZE, (2, 40), generator=torch.Generator().manual_seed(1))
    result: torch.Tensor = model(input_ids=ids).logits
    return result


@pytest.mark.parametrize("layers", [LAYERS, 6, 12, SERVED_LAYERS])
def test_deepening_keeps_every_bit_of_the_logits(layers: int) -> None:
    model = scrambled_policy()
    deep = deepen(model, layers)
    assert deep.config.num_hidden_layers == layers
    assert logits(deep).equal(logits(model))


def test_deepening_silences_only_added_layers() -> None:
    state = scrambled_policy().state_dict()
    deep = deepen_state(state, from_layers=LAYERS, to_layers=12)
    silent = [layer for layer in range(12) if not deep[f"model.layers.{layer}.mlp.down_proj.weight"].any()]
    assert silent == [1, 2, 4, 5, 7, 8, 10, 11]
    assert deep["model.layers.6.self_attn.q_proj.weight"].equal(state["model.layers.2.self_attn.q_proj.weight"])


def test_deepening_leaves_the_model_alone() -> None:
    model = scrambled_policy()
    before = logits(model)
    deep = deepen(model, 8)
    with torch.no_grad():
        for parameter in deep.parameters():
            parameter.zero_()
    assert logits(model).equal(before)


def test_a_model_cannot_be_made_shallower() -> None:
    with pytest.raises(ValueError, match="at least 4"):
        deepen_state({}, from_layers=4, to_layers=3)


def test_an_untrained_policy_is_seeded_and_starts_as_the_identity() -> None:
    first, second, other = (new_policy(seed).state_dict() for seed in (1, 1, 2))
    key = "model.layers.0.self_attn.q_proj.weight"
    assert first[key].equal(second[key])
    assert not first[key].equal(other[key])
    assert not first["model.layers.3.self_attn.o_proj.weight"].any()


def test_a_saved_checkpoint_loads_as_it_was(tmp_path: Path) -> None:
    model = scrambled_policy()
    save_checkpoint(model, tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert loaded.dtype == torch.bfloat16
    assert loaded.config.eos_token_id == EOS_ID
    for key, tensor in model.state_dict().items():
        assert loaded.state_dict()[key].equal(tensor.to(torch.bfloat16))


@pytest.mark.parametrize("layers", [LAYERS, SERVED_LAYERS])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_served_checkpoint_answers_like_the_small_one(tmp_path: Path, dtype: torch.dtype, layers: int) -> None:
    small, served = tmp_path / "small", tmp_path / "served"
    save_checkpoint(scrambled_policy(), small)
    write_served_checkpoint(small, served, layers)
    models = [LlamaForCausalLM.from_pretrained(path, dtype=dtype) for path in (small, served)]
    assert models[1].config.num_hidden_layers == layers
    assert logits(models[0]).equal(logits(models[1]))
    assert logits(deepen(models[0], layers)).equal(logits(models[1]))
    assert (served / "tokenizer.json").read_text() == (small / "tokenizer.json").read_text()
    assert load_file(served / WEIGHTS_FILE).keys() == models[1].state_dict().keys()
