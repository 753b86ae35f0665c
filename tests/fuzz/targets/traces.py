"""Traces of rounds."""

import json

from hypothesis import strategies as st

from tests.fuzz import hostile, json_texts
from tests.fuzz.files import file_target
from tlt_bench.replay.reading import read_trace
from tlt_common.bandit.round_trace import FORMAT
from tlt_common.errors import ConfigError

_HEADER = {"format": FORMAT, "model": "m", "device": "cpu"}
_ROUND = {
    "at_s": 1.5,
    "arm": "chain-7",
    "batch": 2,
    "accepted": [7, 3],
    "drafted": 14,
    "elapsed_s": 0.03,
    "drafter": 1,
    "policy": 0,
}
_LINES = [json.dumps(_HEADER).encode(), json.dumps(_ROUND).encode()]
_INPUTS = st.one_of(
    json_texts.texts(_ROUND).map(lambda line: b"\n".join([*_LINES, line])),
    json_texts.texts(_HEADER).map(lambda line: b"\n".join([line, _LINES[1]])),
    hostile.mutated([b"\n".join(_LINES)]),
)

TARGETS = (
    file_target("traces.text", _INPUTS, read_trace, file="rounds.jsonl", refusals=ConfigError),
    file_target("traces.gzip", _INPUTS, read_trace, file="rounds.jsonl.gz", refusals=ConfigError, weight=0.5),
)
