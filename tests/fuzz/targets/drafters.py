"""Drafter directories: as a worker loads them, and as a trainer follows them."""

import json
from pathlib import Path

from hypothesis import strategies as st

from tests.fuzz import json_texts, safetensors
from tests.fuzz.files import file_target
from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.format import DrafterFormat
from tlt_common.drafter.meta import CONFIG_FILE, META_FILE, WEIGHTS_FILE, meta_of
from tlt_common.drafter.reading import standard_format
from tlt_common.errors import WeightsError

_TARGET = {
    "vocab_size": 24,
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 12,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6,
    "rope_scaling": {"rope_type": "linear", "factor": 2.0},
}
_META = {"version": 2, "base": 1, "worker_id": "w", "steps": 3, "tokens": 100, "held_out_top1": 0.5}


def _form(architecture: DrafterArchitecture) -> DrafterFormat:
    return standard_format(architecture, _TARGET, draft_vocabulary=12)


def _header(form: DrafterFormat) -> dict[str, object]:
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {
        name: ("BF16", shape) for name, shape in form.tensor_shapes().items()
    }
    if form.has_map:
        tensors["d2t"] = ("I64", (form.draft_vocab_size,))
    return safetensors.header_of(tensors)


_EAGLE, _EAGLE3 = map(_form, (DrafterArchitecture.EAGLE, DrafterArchitecture.EAGLE3))


def _prepared(form: DrafterFormat) -> bytes:
    return json.dumps(form.config()).encode()


def _write_config(directory: Path) -> None:
    (directory / CONFIG_FILE).write_bytes(_prepared(_EAGLE3))


def _write_weights(directory: Path) -> None:
    header = _header(_EAGLE3)
    size = max(entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__")  # type: ignore[index]
    (directory / WEIGHTS_FILE).write_bytes(safetensors.encoded(header, size))


def _loaded(path: Path) -> None:
    from tlt_worker.checkpoints.drafter import next_drafter

    next_drafter(path.parent, _EAGLE3, _TARGET)


def _adopted(path: Path) -> None:
    from tlt_trainer.drafter.files import from_files

    from_files({WEIGHTS_FILE: path.read_bytes()}, _EAGLE)


TARGETS = (
    file_target(
        "drafters.config",
        st.one_of(json_texts.texts(_EAGLE3.config()), json_texts.texts(_EAGLE.config())),
        _loaded,
        file=CONFIG_FILE,
        prepare=_write_weights,
        refusals=WeightsError,
        needs_field=False,
    ),
    file_target(
        "drafters.weights",
        safetensors.files(_header(_EAGLE3)),
        _loaded,
        file=WEIGHTS_FILE,
        prepare=_write_config,
        refusals=WeightsError,
        needs_field=False,
    ),
    file_target(
        "drafters.adopted",
        safetensors.files(_header(_EAGLE)),
        _adopted,
        file=WEIGHTS_FILE,
        refusals=WeightsError,
        needs_field=False,
    ),
    file_target(
        "drafters.meta",
        json_texts.texts(_META),
        lambda path: meta_of({META_FILE: path.read_bytes()}),
        file=META_FILE,
        refusals=WeightsError,
        needs_field=False,
    ),
)
