import numpy as np
import pytest
import torch

from tlt_common.client.tensors import stream
from tlt_common.errors import InvalidRequestError
from tlt_common.weights.checkpoint import PIECE_BYTES


@pytest.mark.parametrize(("dtype", "name"), [(torch.bfloat16, "BF16"), (torch.float16, "F16"), (torch.float32, "F32")])
def test_torch_tensors_are_sent_as_raw_bytes(dtype: torch.dtype, name: str) -> None:
    tensor = torch.randn(3, 4).to(dtype)
    (chunk,) = stream({"w": tensor})
    assert (chunk.name, chunk.dtype, chunk.shape, chunk.offset_bytes) == ("w", name, (3, 4), 0)
    assert torch.equal(torch.frombuffer(bytearray(chunk.data), dtype=dtype).reshape(3, 4), tensor)


def test_numpy_arrays_are_sent_as_raw_bytes() -> None:
    array = np.arange(6, dtype=np.float16).reshape(2, 3)
    (chunk,) = stream({"w": array})
    assert (chunk.dtype, chunk.shape, chunk.data) == ("F16", (2, 3), array.tobytes())


def test_a_view_is_sent_row_by_row_as_it_looks() -> None:
    tensor = torch.arange(6.0).reshape(2, 3).T
    array = np.arange(6, dtype=np.float32).reshape(2, 3).T
    for value in (tensor, array):
        (chunk,) = stream({"w": value})
        assert chunk.shape == (3, 2)
        assert chunk.data == np.array([[0, 3], [1, 4], [2, 5]], dtype=np.float32).tobytes()


def test_parameters_scalars_and_empty_tensors_are_sent_too() -> None:
    state = {"p": torch.nn.Parameter(torch.ones(2)), "s": torch.tensor(1.0), "e": torch.zeros(0, 3)}
    assert [(chunk.name, chunk.shape, len(chunk.data)) for chunk in stream(state)] == [
        ("p", (2,), 8),
        ("s", (), 4),
        ("e", (0, 3), 0),
    ]


def test_large_tensors_are_cut() -> None:
    tensor = torch.zeros(PIECE_BYTES // 4 + 1)
    assert [(chunk.offset_bytes, len(chunk.data)) for chunk in stream({"w": tensor})] == [
        (0, PIECE_BYTES),
        (PIECE_BYTES, 4),
    ]


def test_a_tied_head_is_left_out_and_nothing_else_that_shares_memory() -> None:
    embedding = torch.ones(4, 2)
    tied = {"model.embed_tokens.weight": embedding, "twin": embedding, "lm_head.weight": embedding}
    assert [chunk.name for chunk in stream(tied)] == ["model.embed_tokens.weight", "twin"]
    own = {"model.embed_tokens.weight": embedding, "lm_head.weight": embedding.clone()}
    assert [chunk.name for chunk in stream(own)] == list(own)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1.0], "is a list; accepted: torch tensors and numpy arrays"),
        (torch.ones(2, dtype=torch.int64), "has dtype torch.int64; accepted: bfloat16, float16, float32"),
        (np.ones(2), "has dtype float64"),
    ],
)
def test_what_is_no_weight_is_refused_by_name(value: object, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message) as refused:
        list(stream({"a": torch.ones(1), "w": value}))
    assert refused.value.field == "weights['w']"
