"""A base with changes is the full update, bit for bit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from tlt_common.client import ChangedElements
from tlt_common.client.tensors import stream
from tlt_common.errors import WeightsError
from tlt_common.weights import checkpoint
from tlt_common.weights.spool import Spool
from tlt_worker.weights.deltas import folded

BITS = {torch.bfloat16: torch.int16, torch.float16: torch.int16, torch.float32: torch.int32}
NAMES = ["model.embed_tokens.weight", "a", "b.bias", "empty"]


def spooled(directory: Path, state: dict[str, Any]) -> Path:
    """Write what a client sends to a file, as gateways and workers do."""
    spool = Spool(directory)
    for chunk in stream(state):
        spool.write(chunk)
    spool.complete()
    return spool.directory


def written(directory: Path, state: dict[str, torch.Tensor]) -> Path:
    directory.mkdir(parents=True)
    save_file(state, directory / "model.safetensors")
    return directory


def whole(directory: Path, base: Path, changes: Path, **options: Any) -> dict[str, torch.Tensor]:
    spool = Spool(directory)
    for chunk in folded(base, changes, **options):
        spool.write(chunk)
    spool.complete()
    return load_file(spool.file)


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


@st.composite
def updates(draw: st.DrawFn) -> tuple[dict[str, torch.Tensor], dict[str, Any], dict[str, torch.Tensor]]:
    """Draw a state, its changes, and the state with them. Values are any bits, NaNs among them."""
    before: dict[str, torch.Tensor] = {}
    changes: dict[str, Any] = {}
    for name in NAMES:
        dtype = draw(st.sampled_from(sorted(BITS, key=str)))
        shape = (0, 3) if name == "empty" else tuple(draw(st.lists(st.integers(1, 7), max_size=3)))
        random = np.random.default_rng(draw(st.integers(0, 2**32)))

        def tensor(*extents: int, dtype: torch.dtype = dtype, random: Any = random) -> torch.Tensor:
            return torch.from_numpy(random.integers(-(2**15), 2**15, extents)).to(BITS[dtype]).view(dtype)

        before[name] = tensor(*shape)
        if (kind := draw(st.sampled_from(["same", "whole", "elements"]))) == "whole":
            changes[name] = tensor(*shape)
        elif kind == "elements":
            count = draw(st.integers(0, before[name].numel()))
            indices = torch.from_numpy(random.permutation(before[name].numel())[:count].astype(np.int64))
            changes[name] = ChangedElements(indices=indices, values=tensor(count))
    if not changes:
        changes["a"] = before["a"].clone()
    after = {name: tensor.clone() for name, tensor in before.items()}
    for name, change in changes.items():
        if isinstance(change, ChangedElements):
            after[name].view(BITS[after[name].dtype]).view(-1)[change.indices] = change.values.view(
                BITS[after[name].dtype]
            )
        else:
            after[name] = change
    return before, changes, after


@given(updates())
@settings(max_examples=60, deadline=None)
def test_a_base_with_changes_is_the_full_update_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory, update: tuple[dict[str, Any], dict[str, Any], dict[str, Any]]
) -> None:
    before, changes, after = update
    path = tmp_path_factory.mktemp("fold")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "PIECE_BYTES", 8)
        found = whole(path, written(path / "base", before), spooled(path, changes))
    assert {name: (t.dtype, t.shape, bits(t)) for name, t in found.items()} == {
        name: (t.dtype, t.shape, bits(t)) for name, t in after.items()
    }


BASE = {
    "a": torch.arange(6.0).reshape(2, 3),
    "b": torch.zeros(2, dtype=torch.bfloat16),
    "lm_head.weight": torch.ones(2),
}


def elements(*indices: int, values: Any = None, dtype: torch.dtype = torch.int64) -> dict[str, Any]:
    return {
        "a:indices": torch.tensor(indices, dtype=dtype).view(-1),
        "a:values": torch.zeros(len(indices)) if values is None else values,
    }


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"c": torch.zeros(1)}, "tensor c is not in the served weights"),
        ({"a": torch.zeros(3, 2)}, r"tensor a has shape \[3, 2\]; the served one has \[2, 3\]"),
        (elements(6), "has 6 to 6; accepted: 0 to 5"),
        (elements(0, -1), "has -1 to 0; accepted: 0 to 5"),
        (elements(1, 2, 1), "a:indices has duplicate indices"),
        (elements(1, values=torch.zeros(1, dtype=torch.bfloat16)), "has type BF16; the served tensor has F32"),
        (elements(1, 2, values=torch.zeros(3)), "as many as values"),
        ({"a:indices": torch.zeros(1, dtype=torch.float32), "a:values": torch.zeros(1)}, "is F32"),
        ({"a:values": torch.zeros(1)}, "a:values was sent alone"),
        ({**elements(1), "a": BASE["a"]}, "was sent both whole and as a:"),
    ],
)
def test_changes_that_do_not_fit_are_refused_by_name(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    sent, base = written(tmp_path / "changes", changes), written(tmp_path / "base", BASE)
    with pytest.raises(WeightsError, match=said):
        next(folded(base, sent))


def test_a_tied_head_of_the_base_is_left_out_unless_it_is_changed(tmp_path: Path) -> None:
    base = written(tmp_path / "base", BASE)
    embedding, head = spooled(tmp_path, {"a": torch.ones(2, 3)}), spooled(tmp_path, {"lm_head.weight": torch.zeros(2)})
    assert whole(tmp_path, base, embedding, without="lm_head.weight").keys() == {"a", "b"}
    assert whole(tmp_path, base, head, without="lm_head.weight").keys() == set(BASE)
