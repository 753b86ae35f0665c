"""Values that are no numbers are found in every type, however a tensor is cut."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.weights import TensorChunk
from tlt_common.errors import WeightsError
from tlt_worker.checkpoints.finite import FiniteCheck, require_finite

TYPES = {
    "BF16": torch.bfloat16,
    "F16": torch.float16,
    "F32": torch.float32,
    "F64": torch.float64,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
}


def is_refused(name: str, data: bytes) -> bool:
    try:
        require_finite("x", name, data)
    except WeightsError:
        return True
    return False


@pytest.mark.parametrize("name", [name for name in TYPES if "F32" not in name and "F64" not in name])
def test_every_pattern_of_a_small_type_is_judged_as_torch_does(name: str) -> None:
    size = TYPES[name].itemsize
    patterns = np.arange(256**size, dtype=f"<u{size}")
    finite = torch.frombuffer(bytearray(patterns.tobytes()), dtype=TYPES[name]).float().isfinite().tolist()
    for pattern, expected in zip(patterns, finite, strict=True):
        assert is_refused(name, pattern.tobytes()) is not expected


@given(
    name=st.sampled_from(["F32", "F64"]),
    value=st.floats(width=32),
    place=st.integers(0, 99),
    others=st.floats(-3e38, 3e38),
)
def test_one_value_among_many_is_found(name: str, value: float, place: int, others: float) -> None:
    values = torch.full((100,), others, dtype=TYPES[name])
    values[place] = value
    assert is_refused(name, values.numpy().tobytes()) is not bool(values.isfinite().all())


@given(cuts=st.lists(st.integers(0, 40), max_size=6), place=st.none() | st.integers(0, 9))
def test_a_tensor_may_be_cut_anywhere(cuts: list[int], place: int | None) -> None:
    values = torch.ones(10)
    if place is not None:
        values[place] = float("-inf")
    data, check = values.numpy().tobytes(), FiniteCheck()
    ends, refused = [*sorted(cuts), 40], False
    for start, end in zip([0, *ends], ends, strict=False):
        try:
            check.chunk(TensorChunk(name="t", dtype="F32", shape=(10,), offset_bytes=start, data=data[start:end]))
        except WeightsError:
            refused = True
            break
    assert refused is (place is not None)


def test_integers_are_always_numbers() -> None:
    require_finite("x", "I64", b"\xff" * 16)
    require_finite("x", "BF16", b"")
