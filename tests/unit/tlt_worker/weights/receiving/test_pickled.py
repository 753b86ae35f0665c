"""Pickled tensors, from trainers that may be hostile."""

import io
import os
import pickle
from multiprocessing.reduction import ForkingPickler
from typing import Any

import pytest
import torch
from sglang.srt.weight_sync.tensor_bucket import FlattenedTensorBucket

from tlt_common.errors import WeightsError
from tlt_worker.weights.receiving.pickled import read_tensors

STATE = [
    ("embed", torch.arange(6, dtype=torch.float32).reshape(2, 3)),
    ("turned", torch.arange(6, dtype=torch.float32).reshape(2, 3).T),
    ("norm", torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16))),
    ("empty", torch.empty(0, 4)),
]


def forked(value: Any) -> bytes:
    """Serialize as SGLang's MultiprocessingSerializer does."""
    content = io.BytesIO()
    ForkingPickler(content).dump(value)
    return content.getvalue()


def require_state(found: dict[str, torch.Tensor]) -> None:
    assert list(found) == [name for name, _ in STATE]
    for name, tensor in STATE:
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


def test_tensors_with_their_content_are_read() -> None:
    require_state(read_tensors(pickle.dumps(STATE)))


def test_a_bucket_of_several_tensors_is_read() -> None:
    state = [
        ("norm", torch.ones(3, dtype=torch.bfloat16)), ("embed", STATE[0][1]), ("head:indices", torch.tensor([5, 2])),
    ]  # fmt: skip
    bucket = FlattenedTensorBucket(named_tensors=state)
    found = read_tensors(
        pickle.dumps({"flattened_tensor": bucket.get_flattened_tensor(), "metadata": bucket.get_metadata()})
    )
    assert list(found) == [name for name, _ in state]
    assert all(torch.equal(found[name], tensor) for name, tensor in state)


class Call:
    """A pickle that calls a function."""

    def __init__(self, *call: Any) -> None:
        self._call = call

    def __reduce__(self) -> Any:
        function, *arguments = self._call
        return function, tuple(arguments)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (forked(STATE[:1]), "handle"),
        (pickle.dumps([("a", Call(os.system, "true"))]), "it names posix.system"),
        (pickle.dumps([("a", Call(eval, "1"))]), "it names builtins.eval"),
        (pickle.dumps([("a", 1)]), "objects other than tensors"),
        (pickle.dumps([]), "objects other than tensors"),
        (pickle.dumps({"flattened_tensor": torch.ones(2)}), "cannot be read"),
        (pickle.dumps(STATE)[:-40], "cannot be read"),
        (b"", "cannot be read"),
    ],
)
def test_anything_else_is_refused(content: bytes, why: str) -> None:
    with pytest.raises(WeightsError, match=why) as refused:
        read_tensors(content)
    assert refused.value.field == "serialized_named_tensors"


def test_a_view_outside_its_content_is_refused() -> None:
    content = pickle.dumps([("a", torch.ones(2, 3).narrow(0, 1, 1))])
    storage_of_six = content.replace(b"K\x03K\x01K\x03\x86", b"K\x30K\x01K\x03\x86")
    assert storage_of_six != content
    with pytest.raises(WeightsError, match="exceeds its content"):
        read_tensors(storage_of_six)
