"""Every request field of SGLang's is honored as in SGLang, or refused by its name."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from functools import cache, partial
from typing import Any, NamedTuple

import pytest

from tests.conformance import fields
from tests.conformance.servers import ROOT
from tests.conformance.sides import TEXT, Answer, Side, Sides
from tests.conformance.verdicts import Call, Trial, Verdict, verdict, verdict_of_anything

pytestmark = pytest.mark.timeout(1200)


class Protocol(NamedTuple):
    """A body with fields."""

    trials: Mapping[str, Trial]
    call: Call
    prefix: str = ""
    """Of a field's name in errors."""


def _with(name: str, value: Any) -> dict[str, Any]:
    return {name: value}


def _sampled(side: Side, body: Mapping[str, Any]) -> Answer:
    sampling = {name: value for name, value in body.items() if name != "text"}
    return side.generate(text=body.get("text", TEXT), sampling_params=sampling, return_logprob=True)


PROTOCOLS = {
    "generate": Protocol(fields.GENERATE, lambda side, body: side.generate(**body)),
    "sampling": Protocol(fields.SAMPLING, _sampled, prefix="sampling_params."),
    "completion": Protocol(fields.COMPLETION, lambda side, body: side.complete(**body)),
}


@cache
def sglang_fields() -> dict[str, dict[str, Any]]:
    """Return SGLang's fields and defaults, read in a process of its own: SGLang changes the process it is in."""
    program = (
        "import json; from tests.conformance.fields import fields_of; "
        f"print(json.dumps({{name: fields_of(name) for name in {list(PROTOCOLS)}}}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'services'}", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_every_field_is_honored_or_refused_by_name(sides: Sides, kind: str, report: list[str]) -> None:
    protocol, names = PROTOCOLS[kind], sglang_fields()[kind]
    assert protocol.trials.keys() <= names.keys()
    found: dict[str, Verdict] = {}
    for name, default in names.items():
        shown = protocol.prefix + name
        if trial := protocol.trials.get(name):
            found[name] = verdict(sides, protocol.call, shown, trial)
        else:
            found[name] = verdict_of_anything(sides, protocol.call, shown, default, partial(_with, name))
    counts = Counter(found.values())
    report.append(f"{kind}: {len(names)} fields, " + ", ".join(f"{counts[each]} {each}" for each in Verdict))
    fine = (Verdict.CONFORMANT, Verdict.REFUSED)
    report.extend(f"  {kept}: {', '.join(name for name, each in found.items() if each is kept)}" for kept in fine)
    assert {name: each for name, each in found.items() if each not in fine} == {}


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_a_field_with_sglangs_default_is_accepted(sides: Sides, kind: str) -> None:
    """A client may send every field of a class, as SGLang's own does."""
    protocol = PROTOCOLS[kind]
    internal = {"stop_strs", "stop_regex_strs", "stop_str_max_len", "stop_regex_max_len", "is_normalized"}
    refused = {}
    for name, default in sglang_fields()[kind].items():
        if name in {"text", "prompt", "model", "sampling_params", *internal}:
            continue
        answer = protocol.call(sides.suite, _with(name, default))
        if answer.status != 200:
            refused[name] = answer.content
    assert refused == {}


def test_a_seed_decides_the_answer(sides: Sides) -> None:
    def answer(seed: int) -> str:
        sampling = {"temperature": 1.5, "sampling_seed": seed}
        text: str = sides.suite.generate(sampling_params=sampling).content["text"]
        return text

    assert answer(5) == answer(5)
    assert len({answer(seed) for seed in range(4)}) > 1
