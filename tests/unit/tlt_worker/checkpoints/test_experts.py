"""Experts in both spellings are one update; anything between is refused by name."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.families import model_of
from tlt_common.errors import WeightsError
from tlt_common.weights.checkpoint import entries_in
from tlt_common.weights.experts import SERVED_APART, entries_apart
from tlt_worker.checkpoints.policy import ModelTensors
from tlt_worker.model.families import FAMILIES, Spelling
from tlt_worker.scheduler.policy_load import split
from tlt_worker.weights.receiving.collected_tensors import CollectedTensors

LAYER = "model.layers.1.mlp.experts"
State = dict[str, Tensor]


def initialized(family: str, seed: int) -> Any:
    torch.manual_seed(seed)
    return model_of(family).to(torch.bfloat16)


def saved(directory: Path, model: Any) -> Path:
    """As trainers save a checkpoint."""
    model.save_pretrained(directory)
    return directory


def written(directory: Path, state: State, like: Path | None = None) -> Path:
    directory.mkdir(parents=True)
    save_file({name: tensor.clone().contiguous() for name, tensor in state.items()}, directory / "model.safetensors")
    if like is not None:
        (directory / "config.json").write_text((like / "config.json").read_text())
    return directory


def apart(directory: Path) -> State:
    """What an engine is given of a checkpoint in any spelling."""
    state = load_file(directory / "model.safetensors")
    return {part: view for name, tensor in state.items() for part, view in split(name, tensor)}


def bytes_of(directory: Path) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    return {entry.name: (entry.dtype, entry.shape, entry.read().data) for entry in entries_apart(entries_in(directory))}


@pytest.fixture(params=sorted(SERVED_APART))
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def model(family: str, tmp_path: Path) -> Path:
    return saved(tmp_path / "model", initialized(family, 0))


@pytest.fixture
def stacked(family: str) -> State:
    return dict(initialized(family, 1).state_dict())


def test_what_state_dict_holds_is_bit_for_bit_what_save_pretrained_writes(
    family: str, model: Path, stacked: State, tmp_path: Path
) -> None:
    directory = written(tmp_path / "stacked", stacked, like=model)
    other = saved(tmp_path / "apart", initialized(family, 1))
    assert any(name.endswith("gate_up_proj") for name in stacked)
    assert bytes_of(directory) == bytes_of(other)
    views, whole = apart(directory), load_file(other / "model.safetensors")
    assert views.keys() == whole.keys()
    assert all(torch.equal(views[name], whole[name]) for name in whole)
    for started in (model, directory):
        running = ModelTensors.of(started)
        for update in (directory, other):
            running.check(update)


def test_gpt_oss_is_sent_as_it_is_saved(tmp_path: Path) -> None:
    """Its stack is transposed and interleaved: nothing is split, and experts apart are refused."""
    model = saved(tmp_path / "model", initialized("gpt_oss", 0))
    state = initialized("gpt_oss", 1).state_dict()
    running = ModelTensors.of(model)
    running.check(written(tmp_path / "stacked", state))
    assert state.keys() == load_file(model / "model.safetensors").keys()
    stack = state.pop(f"{LAYER}.gate_up_proj")
    state |= {f"{LAYER}.{number}.gate_up_proj": expert for number, expert in enumerate(stack)}
    with pytest.raises(WeightsError, match=r"gate_up_proj is missing; .*experts\.0\.gate_up_proj .*Send .* stacked"):
        running.check(written(tmp_path / "apart", state))


def without(state: State, *ends: str) -> State:
    return {name: tensor for name, tensor in state.items() if not name.endswith(ends)}


GATE_UP, DOWN = f"{LAYER}.gate_up_proj", f"{LAYER}.down_proj"
REFUSED: dict[str, tuple[Callable[[State], State], str]] = {
    "both spellings of a layer": (
        lambda it: it | {f"{LAYER}.0.down_proj.weight": it[DOWN][0]},
        rf"both stacked, as model.*, and apart, as {LAYER}\.0\.down_proj\.weight",
    ),
    "one spelling of each projection": (
        lambda it: without(it, GATE_UP) | dict(split(GATE_UP, it[GATE_UP])),
        "both stacked",
    ),
    "an expert too few": (lambda it: it | {DOWN: it[DOWN][:7]}, r"down_proj has shape \[7, 32, 24\]; .* 8 experts"),
    "an expert too many": (
        lambda it: it | {GATE_UP: it[GATE_UP].repeat(2, 1, 1)},
        r"gate_up_proj has shape \[16, 48, 32\]; .* has 8 experts",
    ),
    "transposed": (lambda it: it | {DOWN: it[DOWN].transpose(1, 2)}, r"has shape \[8, 24, 32\]; .* \[8, 32, 24\]"),
    "flat": (lambda it: it | {DOWN: it[DOWN].flatten(1)}, r"has shape \[8, 768\]; .* \[8, 32, 24\]"),
    "a stack missing": (lambda it: without(it, DOWN), rf"{LAYER}\.0\.down_proj\.weight is missing and 7 others"),
    "integers": (lambda it: it | {DOWN: it[DOWN].to(torch.int32)}, "has type I32"),
    "experts of a layer that has none": (
        lambda it: it | {"model.layers.7.mlp.experts.down_proj": it[DOWN]},
        r"layers\.7\.mlp\.experts\.0\.down_proj\.weight of shape .* is not in the model",
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_is_not_all_experts_is_refused_by_name(why: str, model: Path, stacked: State, tmp_path: Path) -> None:
    changed, said = REFUSED[why]
    running = replace(ModelTensors.of(model), layers=None)
    with pytest.raises(WeightsError, match=said):
        running.check(written(tmp_path / "update", changed(stacked)))


@pytest.mark.parametrize("missing", [f"{LAYER}.3.up_proj.weight", f"{LAYER}.0.down_proj.weight"])
def test_a_single_expert_that_is_missing_is_named(family: str, model: Path, missing: str, tmp_path: Path) -> None:
    state = apart(saved(tmp_path / "saved", initialized(family, 1)))
    with pytest.raises(WeightsError, match=f"tensor {missing} is missing;"):
        ModelTensors.of(model).check(written(tmp_path / "update", without(state, missing)))


def test_a_checkpoint_in_both_spellings_does_not_start(model: Path, stacked: State, tmp_path: Path) -> None:
    mixed = {**load_file(model / "model.safetensors"), DOWN: stacked[DOWN]}
    with pytest.raises(WeightsError, match="both stacked"):
        ModelTensors.of(written(tmp_path / "mixed", mixed, like=model))


def test_layers_that_predict_further_tokens_need_not_be_sent(tmp_path: Path) -> None:
    """GLM's published checkpoints have one, which transformers ignores and SGLang does not serve."""
    model = saved(tmp_path / "model", initialized("glm4_moe", 0))
    own = load_file(model / "model.safetensors")
    extra = {name.replace("layers.1.", "layers.2."): tensor for name, tensor in own.items() if "layers.1." in name}
    published = written(tmp_path / "published", own | extra, like=model)
    for started in (model, published):
        for update in (model, published):
            ModelTensors.of(started).check(update)
    cut = json.loads((model / "config.json").read_text()) | {"num_hidden_layers": 3}
    (published / "config.json").write_text(json.dumps(cut))
    with pytest.raises(WeightsError, match=r"model\.layers\.2\..* is missing"):
        ModelTensors.of(published).check(model)


def buckets(state: State, size: int) -> list[State]:
    names = list(state)
    return [{name: state[name] for name in names[at : at + size]} for at in range(0, len(names), size)]


@pytest.mark.parametrize("are_stacked", [True, False], ids=["stacked", "apart"])
def test_buckets_in_either_spelling_are_complete_with_the_last(
    model: Path, stacked: State, tmp_path: Path, are_stacked: bool
) -> None:
    state = stacked if are_stacked else {part: it for name in stacked for part, it in split(name, stacked[name])}
    collected = CollectedTensors(tmp_path, model, lambda: model)
    sent = buckets(state, 5)
    for bucket in sent:
        assert not collected.progress.is_complete
        save_file({name: it.clone().contiguous() for name, it in bucket.items()}, file := collected.next_file(None))
        progress = collected.add(file)
    assert progress.is_complete
    assert progress.tensors == len(load_file(model / "model.safetensors"))


def test_a_bucket_with_half_a_stack_is_refused_and_drops_what_is_held(
    model: Path, stacked: State, tmp_path: Path
) -> None:
    collected = CollectedTensors(tmp_path, model, lambda: model)
    for bucket, is_good in (
        ({"model.norm.weight": stacked["model.norm.weight"]}, True),
        ({DOWN: stacked[DOWN][:2]}, False),
    ):
        save_file({name: it.clone().contiguous() for name, it in bucket.items()}, file := collected.next_file(None))
        if is_good:
            collected.add(file)
    with pytest.raises(WeightsError, match="8 experts"):
        collected.add(file)
    assert collected.is_empty


def test_the_table_of_families_says_which_experts_are_served_apart() -> None:
    spellings = {row.model_type: row.experts.spelling for row in FAMILIES.values() if row.experts is not None}
    assert {name for name, spelling in spellings.items() if spelling is Spelling.SEPARATE} == SERVED_APART
    assert set(spellings) == {*SERVED_APART, "gpt_oss"}, "each family is tried here"
