from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file

from tlt_common.domain.weights import TensorChunk
from tlt_common.errors import WeightsError, WeightsUnreadableError
from tlt_common.weights.checkpoint import PIECE_BYTES, pieces, pieces_in, read, read_tensors
from tlt_common.weights.spool import Spool

tensors = st.dictionaries(
    st.text("abc.", min_size=1, max_size=6),
    st.tuples(st.sampled_from(["BF16", "F16", "F32"]), st.lists(st.integers(0, 5), max_size=3).map(tuple)),
    min_size=1,
    max_size=5,
)


def whole(name: str, dtype: str, shape: tuple[int, ...]) -> TensorChunk:
    size = {"BF16": 2, "F16": 2, "F32": 4}[dtype]
    for extent in shape:
        size *= extent
    return TensorChunk(name=name, dtype=dtype, shape=shape, offset_bytes=0, data=bytes(i % 251 for i in range(size)))


@given(tensors)
@settings(max_examples=30)
def test_what_was_spooled_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, spec: dict[str, tuple[str, tuple[int, ...]]]
) -> None:
    chunks = [whole(name, dtype, shape) for name, (dtype, shape) in spec.items()]
    spool = Spool(tmp_path_factory.mktemp("spool"))
    for chunk in chunks:
        spool.write(chunk)
    assert spool.complete() == sum(len(chunk.data) for chunk in chunks)
    assert sorted(read(spool.file), key=lambda c: c.name) == sorted(chunks, key=lambda c: c.name)
    with safe_open(spool.file, "np") as file:
        assert set(file.keys()) == set(spec)
    spool.remove()
    assert not spool.directory.exists()


def test_a_large_tensor_travels_in_pieces(tmp_path: Path) -> None:
    data = bytes(range(256)) * (PIECE_BYTES // 256) + b"tail"
    chunks = list(pieces("w", "BF16", (len(data) // 2,), memoryview(data)))
    assert [len(chunk.data) for chunk in chunks] == [PIECE_BYTES, 4]
    spool = Spool(tmp_path)
    for chunk in chunks:
        spool.write(chunk)
    spool.complete()
    assert list(read(spool.file)) == chunks


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (TensorChunk(name="w", dtype="F32", shape=(2,), offset_bytes=0, data=b"1234"), "continues at byte 0"),
        (TensorChunk(name="w", dtype="F16", shape=(2,), offset_bytes=4, data=b"12"), "is F16"),
        (TensorChunk(name="w", dtype="F32", shape=(2,), offset_bytes=4, data=b"12345"), "more than the 8 bytes"),
        (TensorChunk(name="v", dtype="I8", shape=(2,), offset_bytes=0, data=b""), "has dtype 'I8'"),
        (TensorChunk(name="v", dtype="F32", shape=(-1,), offset_bytes=0, data=b""), "has shape"),
        (TensorChunk(name="", dtype="F32", shape=(1,), offset_bytes=0, data=b""), "not a valid tensor name"),
    ],
)
def test_a_piece_that_does_not_fit_is_refused(tmp_path: Path, second: TensorChunk, message: str) -> None:
    spool = Spool(tmp_path)
    spool.write(TensorChunk(name="w", dtype="F32", shape=(2,), offset_bytes=0, data=b"1234"))
    with pytest.raises(WeightsError, match=message):
        spool.write(second)
    with pytest.raises(WeightsError, match="its last 4 bytes are missing"):
        spool.complete()
    spool.remove()


def test_an_empty_stream_is_refused(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    with pytest.raises(WeightsError, match="no tensor"):
        spool.complete()
    spool.remove()


@pytest.mark.parametrize(
    "content",
    [
        b"\xff" * 8,
        bytes(8),
        b"\x02" + bytes(7) + b"[]",
        (100_000).to_bytes(8, "little") + b"[" * 100_000,
        *(
            len(header).to_bytes(8, "little") + header + bytes(8)
            for header in (
                b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4611686018427387904]}}',
                b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}}',
                b'{"a": {"dtype": [], "shape": [2], "data_offsets": [0, 8]}}',
                b'{"a": {"dtype": "F32", "shape": [Infinity], "data_offsets": [0, 8]}}',
            )
        ),
    ],
)
def test_a_file_whose_header_lies_is_refused_before_anything_is_read(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(WeightsError, match="is not a safetensors file"):
        pieces_in(tmp_path)


def test_some_tensors_of_several_files_are_read(tmp_path: Path) -> None:
    parts = [{"a": torch.arange(6.0).view(2, 3), "b": torch.ones(2)}, {"c": torch.zeros(4, dtype=torch.bfloat16)}]
    for number, part in enumerate(parts, 1):
        save_file(part, tmp_path / f"model-{number}-of-2.safetensors")
    found = read_tensors(tmp_path, {"c": (4,), "a": (2, 3)})
    assert found.keys() == {"a", "c"}
    assert torch.equal(found["a"], parts[0]["a"])
    assert torch.equal(found["c"], parts[1]["c"])
    with pytest.raises(WeightsError, match=r"tensor d of .* is missing; accepted: one of shape \[1\]"):
        read_tensors(tmp_path, {"a": (2, 3), "d": (1,)})
    with pytest.raises(WeightsError, match=r"tensor b of .* is of shape \[2\]; accepted: one of shape \[3\]"):
        read_tensors(tmp_path, {"b": (3,)})
    with pytest.raises(WeightsUnreadableError):
        read_tensors(tmp_path / "nowhere", {"a": (2, 3)})
