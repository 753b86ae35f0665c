"""What was exported for any engine is imported as the drafter that it was, and exported again as it was."""

import json
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load

from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.format import DrafterFormat
from tlt_common.drafter.meta import CONFIG_FILE, WEIGHTS_FILE, DrafterMeta
from tlt_common.drafter.reading import format_of, standard_format
from tlt_common.drafter.tensors import MAP
from tlt_common.errors import WeightsError
from tlt_trainer.drafter.export import LAYERS, ExportFormat, exported
from tlt_trainer.drafter.files import from_files, to_files
from tlt_trainer.offline.importing import imported

TARGET: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 48, "hidden_size": 16,
    "intermediate_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 12,
    "max_position_embeddings": 64,
}  # fmt: skip
META = DrafterMeta(version=3, base=2, worker_id="w", steps=5, tokens=7, held_out_top1=0.6)
Files = dict[str, bytes]


def published(form: DrafterFormat) -> Files:
    """Return the files of a drafter with random values."""
    weights = {name: torch.randn(shape) for name, shape in form.tensor_shapes().items()}
    if form.has_map:
        weights[MAP] = torch.full((form.draft_vocab_size,), 3)  # how far each token is behind its number
    return to_files(weights, form, META)


def same(one: Files, other: Files) -> bool:
    mine, theirs = load(one[WEIGHTS_FILE]), load(other[WEIGHTS_FILE])
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


@given(
    layers=st.lists(st.integers(0, 10), min_size=3, max_size=3, unique=True).map(sorted),
    kind=st.sampled_from([DrafterArchitecture.EAGLE, DrafterArchitecture.EAGLE3]),
    hops=st.lists(st.sampled_from(ExportFormat), min_size=1, max_size=3),
    imports=st.booleans(),
)
def test_a_drafter_survives_every_chain_of_exports_and_imports(
    layers: list[int], kind: DrafterArchitecture, hops: list[ExportFormat], imports: bool
) -> None:
    form = standard_format(
        kind, TARGET, draft_vocabulary=40, layers=layers if kind is not DrafterArchitecture.EAGLE else None
    )
    files = original = published(form)
    for to in hops:
        files = exported(files, to)
        config = json.loads(files[CONFIG_FILE])
        if kind is DrafterArchitecture.EAGLE3:
            nested = to is ExportFormat.SGLANG
            assert (config["eagle_config"].get(LAYERS), config.get(LAYERS)) == (
                (layers, None) if nested else (None, [layer + 1 for layer in layers])
            )
        assert format_of(config, TARGET) == form
        if imports or kind is DrafterArchitecture.EAGLE:  # vLLM's is named like a whole Llama, which is not exported
            files = imported(files, TARGET)[0]
            assert format_of(json.loads(files[CONFIG_FILE]), TARGET) == form
    found, expected = from_files(files, form), from_files(original, form)
    assert {name: tensor for name, tensor in expected.items() if not torch.equal(found[name], tensor)} == {}


@pytest.mark.parametrize(("first", "second"), product(ExportFormat, ExportFormat))
def test_an_export_of_an_export_is_that_of_the_original(first: ExportFormat, second: ExportFormat) -> None:
    form = standard_format(DrafterArchitecture.EAGLE3, TARGET, draft_vocabulary=40, layers=(1, 4, 8))
    original = published(form)
    again, once = exported(exported(original, first), second), exported(original, second)
    ours, theirs = json.loads(again[CONFIG_FILE]), json.loads(once[CONFIG_FILE])
    assert {key: value for key, value in theirs.items() if key != "bias"} == {
        key: value for key, value in ours.items() if key != "bias"
    }
    if ExportFormat.VLLM not in {first} - {second}:  # whose files lack a bias of zeros
        assert same(again, once)


def test_numbers_that_contradict_each_other_are_refused() -> None:
    form = standard_format(DrafterArchitecture.EAGLE3, TARGET, draft_vocabulary=40, layers=(1, 4, 8))
    config = form.config(TARGET)
    assert format_of({**config, LAYERS: [2, 5, 9]}, TARGET) == form
    with pytest.raises(WeightsError, match=r"layer_ids is \[1, 4, 8\], and \[1, 4, 8\] in eagle_config; accepted: one"):
        format_of({**config, LAYERS: [1, 4, 8]}, TARGET)


def test_a_block_drafter_survives_an_export() -> None:
    form = standard_format(DrafterArchitecture.BLOCK, TARGET, layers=(1, 4, 8))
    original = published(form)
    files = imported(exported(original, ExportFormat.SGLANG), TARGET)[0]
    assert format_of(json.loads(files[CONFIG_FILE]), TARGET) == form
    assert same(files, original)
