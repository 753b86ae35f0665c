"""Changes of experts, in either spelling and upon either, make the full update bit for bit."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.unit.tlt_worker.weights.test_deltas import bits, spooled, whole, written
from tlt_common.client import ChangedElements
from tlt_common.errors import WeightsError
from tlt_worker.scheduler.policy_load import split
from tlt_worker.weights.deltas import folded

COUNT, INNER, HIDDEN = 3, 4, 5
EXPERTS = "model.layers.0.mlp.experts"
STACKS = {
    f"{EXPERTS}.gate_up_proj": (COUNT, 2 * INNER, HIDDEN),
    f"{EXPERTS}.down_proj": (COUNT, HIDDEN, INNER),
    "model.norm.weight": (HIDDEN,),
}
State = dict[str, Tensor]


def apart(state: State) -> State:
    return {part: view.clone() for name, it in state.items() for part, view in split(name, it)}


def spelled(state: State, spelling: str) -> State:
    return state if spelling == "stacked" else apart(state)


@pytest.fixture
def before() -> State:
    random = torch.Generator().manual_seed(0)
    return {name: torch.randn(shape, generator=random).to(torch.bfloat16) for name, shape in STACKS.items()}


@pytest.fixture
def after(before: State) -> State:
    """A third of all elements changed, none of one expert."""
    random = torch.Generator().manual_seed(1)
    changed = {}
    for name, tensor in before.items():
        places = torch.rand(tensor.shape, generator=random) < 1 / 3
        if tensor.dim() == 3:
            places[1] = False
        changed[name] = torch.where(places, tensor + 1, tensor)
    return changed


def elements(old: State, new: State) -> dict[str, Any]:
    found = {}
    for name, tensor in new.items():
        places = (tensor != old[name]).flatten().nonzero().flatten()
        found[name] = ChangedElements(places.flip(0), tensor.flatten()[places].flip(0))
    return found


@pytest.mark.parametrize("served", ["stacked", "apart"])
@pytest.mark.parametrize("sent", ["stacked", "apart"])
@pytest.mark.parametrize("form", ["elements", "whole", "one of each"])
def test_changed_experts_are_folded_whatever_their_spelling(
    tmp_path: Path, before: State, after: State, served: str, sent: str, form: str
) -> None:
    base = written(tmp_path / "base", spelled(before, served))
    old, new = spelled(before, sent), spelled(after, sent)
    changes: dict[str, Any] = elements(old, new)
    if form == "whole":
        changes = dict(new)
    if form == "one of each":
        changes[next(iter(new))] = next(iter(new.values()))
    result = whole(tmp_path, base, spooled(tmp_path, changes), splits_experts=True)
    wanted = apart(after)
    assert result.keys() == wanted.keys()
    assert all(bits(result[name]) == bits(wanted[name]) for name in wanted)


DOWN = f"{EXPERTS}.down_proj"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({DOWN: torch.zeros(2, HIDDEN, INNER)}, rf"{DOWN} has shape \[2, 5, 4\]; .* the served weights has 3 experts"),
        ({DOWN: torch.zeros(COUNT, INNER, HIDDEN)}, r"stacked, have \[3, 5, 4\]"),
        ({"model.layers.9.mlp.experts.down_proj": torch.zeros(COUNT, HIDDEN, INNER)}, "is not in the served weights"),
        (
            {DOWN: torch.zeros(COUNT, HIDDEN, INNER), f"{EXPERTS}.0.up_proj.weight": torch.zeros(INNER, HIDDEN)},
            rf"both stacked, as {DOWN}, and apart, as {EXPERTS}\.0\.up_proj",
        ),
        (
            {
                DOWN: ChangedElements(torch.tensor([0]), torch.zeros(1, dtype=torch.bfloat16)),
                f"{EXPERTS}.0.up_proj.weight": torch.zeros(INNER, HIDDEN),
            },
            "both stacked",
        ),
        (
            {DOWN: ChangedElements(torch.tensor([COUNT * HIDDEN * INNER]), torch.zeros(1, dtype=torch.bfloat16))},
            "accepted: 0 to 59",
        ),
        ({DOWN: ChangedElements(torch.tensor([0]), torch.zeros(1))}, "has type F32; the served tensor has BF16"),
    ],
)
def test_changes_that_are_not_of_these_experts_are_refused(
    tmp_path: Path, before: State, changes: dict[str, Any], said: str
) -> None:
    base = written(tmp_path / "base", apart(before))
    with pytest.raises(WeightsError, match=said):
        list(folded(base, spooled(tmp_path, changes), splits_experts=True))


def test_elements_of_a_stack_need_experts_of_one_type(tmp_path: Path, before: State) -> None:
    state = apart(before)
    state[f"{EXPERTS}.1.down_proj.weight"] = state[f"{EXPERTS}.1.down_proj.weight"].float()
    changes = {DOWN: ChangedElements(torch.tensor([0]), torch.zeros(1, dtype=torch.bfloat16))}
    with pytest.raises(WeightsError, match=r"\['BF16', 'F32'\]; send them whole"):
        list(folded(written(tmp_path / "base", state), spooled(tmp_path, changes), splits_experts=True))
