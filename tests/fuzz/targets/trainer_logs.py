"""Logs of trainers: each form's reader, given a valid log that was changed or damaged."""

import json
import pickle
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.fuzz import hostile, json_texts
from tests.fuzz.files import file_target
from tests.fuzz.target import Target
from tlt_common.errors import ConfigError
from tlt_simulator.traces import parsed_lengths, read_trace

_ROWS: dict[str, dict[str, Any]] = {
    "lengths": {"step": 1, "prompt": 3, "tokens": 70, "prompt_tokens": 5, "ends": True, "after_s": 0.5, "seconds": 2.0},
    "mooncake": {"timestamp": 10, "input_length": 600, "output_length": 70, "hash_ids": [1, 2]},
    "servegen": {"request_id": 5, "type": "text", "input_length": 60, "output_length": 70, "duration": 900},
    "prime-rl": {
        "env": {"name": "e"},
        "task": {"key": "k", "data": {"idx": 0}},
        "group": {"id": "g"},
        "traces": [
            {
                "agent": {"trainable": True},
                "calls": [
                    {
                        "finish_reason": "stop",
                        "usage": {"prompt_tokens": 5, "completion_tokens": 7, "cached_input_tokens": 2},
                        "time": {"start": 1.8e9, "end": 1.8e9 + 2},
                    }
                ],
            }
        ],
    },
}
_TABLE = b"step,prompt,tokens,ends,seconds\r\n1,a,70,true,2.5\r\n1,a,80,false,3\r\n2,b,9,true,0.5\r\n"
_DUMP = {
    "rollout_id": 0,
    "samples": [{"group_index": 0, "prompt": "p", "tokens": [1, 2, 3], "response_length": 2, "status": "completed"}],
}


def _lines(row: dict[str, Any]) -> SearchStrategy[bytes]:
    """Lines of a valid row and of one near it."""
    valid = json.dumps(row).encode()
    near = json_texts.texts(row).map(lambda line: b"\n".join([valid, line, b""]))
    return st.one_of(near, json_texts.texts(row), hostile.mutated([valid + b"\n" + valid]))


def _zipped(pickled: bytes) -> bytes:
    stream = BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("0/data.pkl", pickled)
    return stream.getvalue()


def _reading(form: str | None) -> Callable[[Path], Any]:
    return lambda path: read_trace(path, form=form, group=None, cap=None)


def _target(name: str, inputs: SearchStrategy[bytes], read: Callable[[Path], Any], file: str) -> Target:
    return file_target(f"trainer_logs.{name}", inputs, read, file=file, refusals=ConfigError, weight=0.5)


TARGETS = (
    *(_target(name, _lines(row), _reading(name), "1.jsonl") for name, row in _ROWS.items()),
    _target("any", st.one_of(*map(_lines, _ROWS.values())), _reading(None), "1.jsonl"),
    _target("csv", hostile.mutated([_TABLE]), _reading(None), "1.csv"),
    _target(
        "slime",
        st.one_of(
            json_texts.documents(_DUMP).map(lambda values: _zipped(pickle.dumps(values, protocol=2))),
            hostile.mutated([pickle.dumps(_DUMP, protocol=2)]).map(_zipped),
            hostile.mutated([_zipped(pickle.dumps(_DUMP, protocol=2))]),
        ),
        _reading(None),
        "0.pt",
    ),
    _target(
        "distribution",
        hostile.mutated(
            [b"lognormal:median=5000,p99=30000,cap=32768,drift=0.1", b"quantiles:p50=50,p90=90,p99=300,cap=999"]
        ),
        lambda path: parsed_lengths(path.read_bytes().decode(errors="replace")),
        "lengths",
    ),
)
