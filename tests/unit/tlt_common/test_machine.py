"""What is read of the machine."""

from pathlib import Path

import pytest

from tlt_common.machine import multiplies_bfloat16

X86, ARM = "flags\t\t: fpu avx2 {}\n", "Features\t: fp asimd {}\n"


@pytest.mark.parametrize(
    ("info", "multiplies"),
    [
        (X86.format("avx512f"), False),
        (X86.format("avx512_bf16"), True),
        (X86.format("amx_bf16 amx_tile"), True),
        (ARM.format("bf16"), True),
        (ARM.format("sve"), False),
    ],
)
def test_a_cpu_multiplies_bfloat16_by_its_flags(info: str, multiplies: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda _: info)
    assert multiplies_bfloat16.__wrapped__() is multiplies


def test_a_cpu_that_cannot_be_read_counts_as_one_that_emulates(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: Path) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)
    assert multiplies_bfloat16.__wrapped__() is False
