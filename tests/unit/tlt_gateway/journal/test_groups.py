"""Names of groups: joined across processes, and meaningless without the key."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.file_systems import refuse_link
from tests.fakes.full_disk import full_disk
from tlt_common.errors import ConfigError
from tlt_gateway.journal.groups import KEY_BYTES, KEY_FILE, group_key, group_name

PROMPT = (5, 71, 2**31 - 1)


def test_a_directory_has_one_key_that_others_cannot_read(tmp_path: Path) -> None:
    key = group_key(tmp_path)
    assert group_key(tmp_path) == key
    assert len(key) == KEY_BYTES
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o077 == 0


def test_a_damaged_key_is_refused_by_its_file(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).write_bytes(b"short")
    with pytest.raises(ConfigError, match=rf"{KEY_FILE} has 5 bytes; accepted: 32"):
        group_key(tmp_path)
    with pytest.raises(ConfigError, match=f"{KEY_FILE} cannot be used"):
        group_key(tmp_path / "missing")


def test_a_key_that_a_full_disk_has_left_empty_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).touch()
    key = group_key(tmp_path)
    assert len(key) == KEY_BYTES
    assert group_key(tmp_path) == key
    assert [path.name for path in tmp_path.iterdir()] == [KEY_FILE]


def test_a_full_disk_leaves_no_key(tmp_path: Path) -> None:
    with full_disk(), pytest.raises(ConfigError, match="cannot be used"):
        group_key(tmp_path)
    assert not list(tmp_path.iterdir())
    assert len(group_key(tmp_path)) == KEY_BYTES


def test_a_link_is_no_key(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"x" * KEY_BYTES)
    (tmp_path / KEY_FILE).symlink_to(tmp_path / "other")
    with pytest.raises(ConfigError, match="cannot be used"):
        group_key(tmp_path)


def test_without_links_a_key_is_made_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", refuse_link)
    assert group_key(tmp_path) == group_key(tmp_path)


def test_a_name_depends_on_prompt_owner_and_key() -> None:
    name = group_name(bytes(KEY_BYTES), "trainer", hash(PROMPT), len(PROMPT))
    assert name == group_name(bytes(KEY_BYTES), "trainer", hash((5, 71, 2**31 - 1)), 3)
    others = {
        group_name(bytes(KEY_BYTES), "other", hash(PROMPT), len(PROMPT)),
        group_name(bytes(KEY_BYTES), "trainer", hash(PROMPT[:-1]), len(PROMPT) - 1),
        group_name(bytes([1] * KEY_BYTES), "trainer", hash(PROMPT), len(PROMPT)),
    }
    assert len(others | {name}) == 4


@pytest.mark.parametrize("seed", ["1", "2"])
def test_a_prompt_has_the_same_hash_in_every_process(seed: str) -> None:
    program = f"print(hash({PROMPT}))"
    ran = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True
    )
    assert int(ran.stdout) == hash(PROMPT)
