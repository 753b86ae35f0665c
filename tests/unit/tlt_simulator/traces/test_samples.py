"""Each form's sample is recognised and read: lengths, groups and times, and nothing else."""

from dataclasses import asdict
from pathlib import Path

import pytest

from tests.unit.tlt_simulator.traces.written import SAMPLES, tokenizer
from tlt_common.errors import ConfigError
from tlt_simulator.trace import RunTrace
from tlt_simulator.traces import forms, read_trace

LENGTHS = {
    "verl": [[(0, 4), (0, 11), (1, 9), (1, 16)], [(0, 5), (0, 12), (1, 10), (1, 17)]],
    "slime": [[(0, 4), (0, 9), (1, 7), (1, 12)], [(0, 5), (0, 10), (1, 8), (1, 13)]],
    "prime-rl": [[(0, 5), (1, 10), (0, 14), (1, 25)], [(0, 6), (1, 11), (0, 15), (1, 26)]],
    "trl": [[(0, 3), (0, 7), (1, 11), (1, 15)]] * 2,
    "mooncake": [[(0, 500), (0, 490), (1, 30), (1, 45), (2, 12)]],
    "lengths/lengths.csv": [
        [(0, 812), (0, 3911), (1, 275), (1, 4096)],
        [(0, 700), (0, 2950), (2, 310), (2, 1211)],
    ],
    "lengths/lengths.jsonl": [[(0, 812), (0, 3911), (1, 275), (1, 4096)], [(2, 700), (2, 2950)]],
}
TEXTS = ("verl", "trl")


def read(name: str, tmp_path: Path, form: str | None = None) -> RunTrace:
    return read_trace(SAMPLES / name, form=form, tokenizer=tokenizer(tmp_path) if name in TEXTS else None)


@pytest.mark.parametrize("name", LENGTHS)
def test_a_sample_is_recognised_and_read(name: str, tmp_path: Path) -> None:
    trace = read(name, tmp_path)
    assert [[(one.prompt, one.tokens) for one in step.samples] for step in trace.steps] == LENGTHS[name]
    assert read(name, tmp_path, form=name.partition("/")[0]) == trace


def test_every_form_has_a_sample() -> None:
    assert {name.partition("/")[0] for name in LENGTHS} | {"servegen", "journal"} == set(forms())


def test_a_form_is_described_in_a_line() -> None:
    assert all(about and "\n" not in about for about in forms().values())


def test_servegens_batch_is_a_step_of_prompts_of_their_own() -> None:
    trace = read_trace(SAMPLES / "servegen")
    assert len(trace.steps) == 1
    assert len({one.prompt for one in trace.steps[0].samples}) == trace.responses == 64
    assert (trace.steps[0].samples[0].prompt_tokens, trace.steps[0].samples[0].tokens, trace.cap) == (61, 2370, 6144)


def test_prompts_are_the_same_in_later_epochs_and_truncation_is_known() -> None:
    first, second = read_trace(SAMPLES / "slime").steps
    assert {one.prompt for one in first.samples} == {one.prompt for one in second.samples}
    assert [one.ends for one in second.samples] == [True, True, True, False]
    assert {one.prompt_tokens for one in first.samples} == {4}


def test_times_of_calls_give_those_of_steps() -> None:
    trace = read_trace(SAMPLES / "prime-rl")
    assert [step.step_s for step in trace.steps] == [60.0, None]
    assert trace.steps[0].rollout_s == pytest.approx(1.68)
    assert [one.after_s for one in trace.steps[0].samples] == [0.0, 0.0, 0.1, 0.1]
    cached = [one.prompt_tokens for one in trace.steps[0].samples]
    assert cached == [12, 12, 16, 16], "cached tokens of a prompt are tokens of it, too"
    assert [one.ends for one in trace.steps[0].samples] == [True] * 4, "the last of several calls says how it ended"


def test_a_table_of_lengths_says_what_it_knows() -> None:
    trace = read_trace(SAMPLES / "lengths" / "lengths.csv", group=2, cap=4096)
    assert [(step.rollout_s, step.step_s) for step in trace.steps] == [(41.5, 58.0), (30.5, 47.2)]
    assert asdict(trace.steps[0].samples[3]) == {
        "prompt": 1,
        "prompt_tokens": 131,
        "tokens": 4096,
        "ends": False,
        "after_s": 0.2,
    }
    assert trace.notes == ()


def test_what_a_log_does_not_say_is_noted() -> None:
    unknown = read_trace(SAMPLES / "mooncake")
    assert unknown.cap == 500
    assert any("neither the cap" in note for note in unknown.notes)
    known = read_trace(SAMPLES / "mooncake", cap=500)
    assert [one.ends for one in known.steps[0].samples] == [False, True, True, True, True]


@pytest.mark.parametrize("name", TEXTS)
def test_texts_are_not_counted_without_a_tokenizer(name: str) -> None:
    with pytest.raises(ConfigError, match=r":? ?(row )?1: (output|completion) is a text.*tokenizer"):
        read_trace(SAMPLES / name)
