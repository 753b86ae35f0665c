"""Drafters of others, whose weights are pickled."""

import io
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load

from tlt_common.drafter.meta import CONFIG_FILE, WEIGHTS_FILE
from tlt_common.errors import ConfigError, WeightsError
from tlt_trainer.drafter.files import PICKLED_FILE, as_safetensors
from tlt_trainer.offline.exporting import find_drafter


def pickled(content: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def test_weights_of_a_pickle_are_read_as_they_are(tmp_path: Path) -> None:
    shared = torch.randn(4, 6)
    tensors = {"fc.weight": shared, "layers.0.mlp.weight": shared.t(), "d2t": torch.arange(3)}
    (tmp_path / CONFIG_FILE).write_text("{}")
    (tmp_path / PICKLED_FILE).write_bytes(pickled(tensors))
    _, files = find_drafter(str(tmp_path))
    assert set(files) == {CONFIG_FILE, WEIGHTS_FILE}
    found = load(files[WEIGHTS_FILE])
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())


def test_safetensors_are_preferred() -> None:
    files = {WEIGHTS_FILE: b"x", PICKLED_FILE: b"y"}
    assert as_safetensors(files) == files


class Harmful:
    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("executed",))


@pytest.mark.parametrize("content", [b"", b"no pickle", pickled([1.0]), pickled({"a": "b"}), pickled({"a": Harmful()})])
def test_what_holds_no_tensors_is_refused_and_nothing_is_executed(
    content: bytes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(WeightsError, match=PICKLED_FILE):
        as_safetensors({PICKLED_FILE: content})
    (tmp_path / CONFIG_FILE).write_text("{}")
    (tmp_path / PICKLED_FILE).write_bytes(content)
    with pytest.raises(ConfigError, match=PICKLED_FILE):
        find_drafter(str(tmp_path))
    assert "executed" not in capfd.readouterr().out
