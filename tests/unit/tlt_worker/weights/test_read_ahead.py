"""Weights are in memory before generation pauses for them."""

import ctypes
import mmap
import os
from pathlib import Path

import psutil
import pytest

from tlt_worker.weights import read_ahead as module
from tlt_worker.weights.read_ahead import read_ahead

SIZE = 12 * mmap.PAGESIZE


def in_memory(file: Path) -> int:
    """Return the pages of a file that are in the page cache (mincore(2))."""
    with file.open("r+b") as stream, mmap.mmap(stream.fileno(), 0) as mapped:
        count = -(-len(mapped) // mmap.PAGESIZE)
        found = (ctypes.c_ubyte * count)()
        view = (ctypes.c_char * len(mapped)).from_buffer(mapped)
        failed = ctypes.CDLL(None, use_errno=True).mincore(ctypes.byref(view), ctypes.c_size_t(len(mapped)), found)
        del view
    assert not failed
    return sum(each & 1 for each in found)


def evict(file: Path) -> None:
    with file.open("rb") as stream:
        os.fsync(stream.fileno())
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if in_memory(file):
        pytest.skip("this file system keeps its files in memory")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "model-00001.safetensors"
    file.write_bytes(bytes(SIZE))
    evict(file)
    return file


def test_every_page_is_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PART_BYTES", 5 * mmap.PAGESIZE)
    monkeypatch.setattr(module, "BUFFER_BYTES", 2 * mmap.PAGESIZE)
    (file.parent / "empty.safetensors").touch()
    assert read_ahead(file.parent)
    assert in_memory(file) == SIZE // mmap.PAGESIZE


def test_nothing_is_read_that_memory_has_no_room_for(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: type("Memory", (), {"available": SIZE - 1}))
    assert not read_ahead(file.parent)
    assert in_memory(file) == 0


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "gone.safetensors").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OSError, match=r"gone"):
        read_ahead(tmp_path)
