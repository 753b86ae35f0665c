"""Journals of gateways and coordinators."""

import json
from pathlib import Path

from hypothesis import strategies as st

from tests.fuzz import hostile, json_texts
from tests.fuzz.files import file_target
from tlt_common.errors import ConfigError
from tlt_common.journal.contents import contents_of
from tlt_common.journal.format import FORMAT
from tlt_common.journal.reader import journals_in

_HEADER = {
    "format": FORMAT,
    "service": "gateway",
    "id": "g",
    "began": 1767225600.0,
    "part": 1,
    "suite": "0.2.0",
    "clock": "Unix time when the run began, advanced by a monotonic clock",
}
_RESPONSE = {
    "kind": "response",
    "at": 1767225609.0,
    "number": 1,
    "group": "f00d",
    "outcome": "finished",
    "finish": "stop",
    "prompt": 7,
    "prefix": 0,
    "tokens": 20,
    "cap": 64,
    "cached": 3,
    "arrived": 1767225600.0,
    "first": 1767225602.0,
    "rounds": 6,
    "accepted": 14,
    "drafted": 30,
    "versions": [3],
    "stays": [{"worker": "w", "began": 1767225601.0, "ended": 1767225609.0, "tokens": 20, "drafter": 1, "end": "over"}],
}
_LINES = [json.dumps(_HEADER).encode(), json.dumps(_RESPONSE).encode()]
_INPUTS = st.one_of(
    json_texts.texts(_RESPONSE).map(lambda line: b"\n".join([*_LINES, line, b""])),
    json_texts.texts(_HEADER).map(lambda line: b"\n".join([line, _LINES[1], b""])),
    hostile.mutated([b"\n".join([*_LINES, b""])]),
)


def _read(path: Path) -> None:
    for journal in journals_in(path.parent):
        contents_of(journal)


TARGETS = (file_target("journals.gateway", _INPUTS, _read, file="gateway-g-000001.jsonl", refusals=ConfigError),)
