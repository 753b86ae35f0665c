"""The coordinator's state file."""

from pathlib import Path

from tests.fuzz import json_texts
from tests.fuzz.files import file_target
from tlt_common.errors import ConfigError
from tlt_coordinator.state import STATE_FILE, StateStore

_VALID = {
    "drafter": {"version": 2, "uri": "/drafters/2"},
    "drafters": [{"version": 2, "worker_id": "w", "at_unix_s": 1.5, "held_out_top1": 0.5}],
    "reserved_epoch": 1024,
}


def _read(path: Path) -> None:
    StateStore.open(path.parent, now_s=1.0)


TARGETS = (file_target("coordinator.state", json_texts.texts(_VALID), _read, file=STATE_FILE, refusals=ConfigError),)
