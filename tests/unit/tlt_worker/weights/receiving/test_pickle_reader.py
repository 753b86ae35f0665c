"""Pickles are read by a process that may die."""

import pickle
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tlt_common.errors import WeightsError
from tlt_worker.weights.receiving.pickle_reader import PickleReader

GOOD = pickle.dumps([("a", torch.arange(6.0)), ("b", torch.ones(2, dtype=torch.bfloat16))])


@pytest.fixture
async def reader() -> AsyncIterator[PickleReader]:
    made = PickleReader()
    yield made
    await made.close()


async def read(reader: PickleReader, directory: Path, content: bytes) -> dict[str, torch.Tensor]:
    pickled, file = directory / "part.pickle", directory / "part.safetensors"
    file.unlink(missing_ok=True)
    pickled.write_bytes(content)
    await reader.write_tensors(pickled, file)
    return load_file(file)


HOSTILE = {
    "a memo of 2 GB": b"\x80\x02]r\xff\xff\xff\x07.",
    "a memo of 32 GB": b"\x80\x02]r\xff\xff\xff\x7f.",
    "bytes of 4 GB": b"\x80\x04B\xff\xff\xff\xff.",
    "bytes of 8 EB": b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b".",
    "a frame of 8 EB": b"\x80\x04\x95" + struct.pack("<Q", 2**62) + b".",
    "a number of 2 GB": b"\x80\x02\x8b\xff\xff\xff\x7f.",
    "a function that is renamed": b"ctorch._utils\n_rebuild_tensor_v2\n}(U\x08__name__U\x06stolenub.",
    "lists in lists": b"(" * 100_000 + b"t" * 100_000 + b".",
    "a name that is not listed": b"cos\nsystem\n(S'true'\ntR.",
    "few bytes that stand for many": pickle.dumps([("a", torch.ones(1).expand(2**33))]),
    "nothing": b"",
}


async def test_whatever_a_pickle_does_the_next_one_is_read(reader: PickleReader, tmp_path: Path) -> None:
    for why, content in HOSTILE.items():
        with pytest.raises(WeightsError, match="serialized_named_tensors") as refused:
            await read(reader, tmp_path, content)
        assert refused.value.field == "serialized_named_tensors", why
        assert torch.equal((await read(reader, tmp_path, GOOD))["a"], torch.arange(6.0)), why
    tensor = torch.arange(6.0).reshape(2, 3)
    found = await read(reader, tmp_path, pickle.dumps([("a", tensor), ("tied", tensor), ("part", tensor[1])]))
    assert torch.equal(found["a"], found["tied"])
    assert torch.equal(found["part"], tensor[1]), "tensors may share memory"


async def test_a_reader_whose_process_ended_starts_another(reader: PickleReader, tmp_path: Path) -> None:
    await read(reader, tmp_path, GOOD)
    assert reader._process is not None
    await reader._process.end()
    with pytest.raises(WeightsError, match="its process ended"):
        await read(reader, tmp_path, GOOD)
    assert (await read(reader, tmp_path, GOOD)).keys() == {"a", "b"}
