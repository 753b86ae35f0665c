"""Freed buffers are kept: measured in page faults of a process of its own, since it changes malloc for good."""

import platform
import subprocess
import sys

import pytest

ROUNDS = """
import resource, sys
from tlt_common.weights.message_buffers import keep_message_buffers
if sys.argv[1] == "keep":
    keep_message_buffers()
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    pieces = [b"x" * 2**22 for _ in range(8)]
    del pieces
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print([faults() for _ in range(4)][-1])
"""
PAGES = 8 * 2**22 // 4096


def faults(mode: str) -> int:
    done = subprocess.run([sys.executable, "-c", ROUNDS, mode], capture_output=True, text=True, check=True, timeout=60)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators have other rules")
def test_pieces_reuse_the_memory_of_earlier_ones() -> None:
    assert faults("keep") < PAGES / 8 < PAGES / 2 < faults("default")
