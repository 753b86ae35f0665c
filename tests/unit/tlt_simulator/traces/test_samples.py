"""Each form's sample is recognised and read: lengths, groups and times, and nothing else."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.unit.tlt_simulator.traces.written import SAMPLES, json_lines, tokenizer, torch_saved
from tlt_common.errors import ConfigError
from tlt_simulator.trace import RunTrace
from tlt_simulator.traces import forms, read_trace

LENGTHS = {
    "verl": [[(0, 4), (0, 11), (1, 9), (1, 16)], [(0, 5), (0, 12), (1, 10), (1, 17)]],
    "slime": [[(0, 4), (0, 9), (1, 7), (1, 12)], [(0, 5), (0, 10), (1, 8), (1, 13)]],
    "prime-rl": [[(0, 5), (1, 10), (0, 14), (1, 25)], [(0, 6), (1, 11), (0, 15), (1, 26)]],
    "trl": [[(0, 3), (0, 7), (1, 11), (1, 15)]] * 2,
    "mooncake": [[(0, 500), (0, 490), (1, 30), (1, 45), (2, 12)]],
    "burstgpt": [[(0, 18), (1, 230), (2, 276)], [(3, 100), (4, 40)]],
    "azure": [[(0, 44), (1, 109), (2, 55)], [(3, 5), (4, 6)]],
    "nemo-rl": [[(0, 3), (0, 3), (1, 3), (1, 1)]] * 2,
    "areal": [[(0, 20), (0, 25), (1, 12), (1, 9)], [(0, 21), (0, 23)]],
    "skyrl/dumped_evals": [[(0, 3), (0, 5), (1, 1)]] * 2,
    "verifiers": [[(0, 14), (0, 64), (1, 33)]],
    "wandb": [[(0, 3), (0, 4)]],
    "wandb/lengths": [[(0, 30), (0, 64)], [(1, 12)]],
    "lengths/lengths.csv": [
        [(0, 812), (0, 3911), (1, 275), (1, 4096)],
        [(0, 700), (0, 2950), (2, 310), (2, 1211)],
    ],
    "lengths/lengths.jsonl": [[(0, 812), (0, 3911), (1, 275), (1, 4096)], [(2, 700), (2, 2950)]],
}
TEXTS = ("verl", "trl", "skyrl/dumped_evals", "wandb")


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


def test_requests_of_serving_keep_their_times_and_those_that_failed_are_left_out() -> None:
    trace = read_trace(SAMPLES / "burstgpt")
    assert [one.after_s for one in trace.steps[0].samples] == [0.0, 40.0, 123.0]
    assert any("left out 1 requests without a response" in note for note in trace.notes)
    assert [one.after_s for one in read_trace(SAMPLES / "azure").steps[0].samples] == [0.0, 4.314579, 4.541977]


def test_what_a_tool_returned_was_not_generated() -> None:
    samples = read_trace(SAMPLES / "nemo-rl").steps[0].samples
    assert [(one.prompt_tokens, one.tokens) for one in samples] == [(2, 3), (2, 3), (3, 3), (3, 1)]


def test_how_responses_ended_is_read_where_it_is_said(tmp_path: Path) -> None:
    assert [one.ends for one in read("skyrl/dumped_evals", tmp_path).steps[0].samples] == [True, False, True]
    assert [one.ends for one in read("verifiers", tmp_path).steps[0].samples] == [True, False, True]
    assert [one.ends for one in read("wandb/lengths", tmp_path).steps[0].samples] == [True, False]


def test_prime_rls_streams_are_read_by_the_step_of_each_episode(tmp_path: Path) -> None:
    old = read_trace(SAMPLES / "prime-rl")
    stream = tmp_path / "traces" / "stream"
    stream.mkdir(parents=True)
    lines = [
        json.dumps({**json.loads(line), "step": step})
        for step in (1, 2)
        for line in (SAMPLES / f"prime-rl/rollouts/step_{step}/train/all/traces.jsonl").read_text().splitlines()
    ]
    for number, part in enumerate((lines[:1], lines[1:])):
        data = zstandard.ZstdCompressor().compress("".join(f"{line}\n" for line in part).encode())
        (stream / f"{number:05}.jsonl.zst").write_bytes(data)
    assert read_trace(tmp_path).steps == old.steps
    (stream / "00001.jsonl.zst").write_bytes(data[:-20])
    with pytest.raises(ConfigError, match=r"00001\.jsonl\.zst:\d+: the (file is cut|line is)"):
        read_trace(tmp_path)


def test_what_a_log_does_not_say_is_noted() -> None:
    unknown = read_trace(SAMPLES / "mooncake")
    assert unknown.cap == 500
    assert any("neither the cap" in note for note in unknown.notes)
    known = read_trace(SAMPLES / "mooncake", cap=500)
    assert [one.ends for one in known.steps[0].samples] == [False, True, True, True, True]


@pytest.mark.parametrize("name", TEXTS)
def test_texts_are_not_counted_without_a_tokenizer(name: str) -> None:
    with pytest.raises(ConfigError, match=r":? ?(row )?1: (output|completion|output_response) is a text.*tokenizer"):
        read_trace(SAMPLES / name)


def test_slimes_mask_says_what_was_sampled(tmp_path: Path) -> None:
    def sample(mask: list[int] | None) -> dict[str, Any]:
        return {
            "group_index": 0, "prompt": "p", "tokens": list(range(10)), "response_length": 6, "status": "completed",
            "loss_mask": mask,
        }  # fmt: skip

    masks: list[list[int] | None] = [[1, 1, 0, 0, 0, 1], None, [0] * 6]
    torch_saved(tmp_path / "0.pt", {"rollout_id": 0, "samples": [sample(mask) for mask in masks]})
    samples = read_trace(tmp_path).steps[0].samples
    assert [(one.prompt_tokens, one.tokens) for one in samples] == [(4, 3), (4, 6), (4, 6)]
    torch_saved(tmp_path / "0.pt", {"rollout_id": 0, "samples": [sample([1, 0])]})
    with pytest.raises(ConfigError, match=r"samples\[0\]: loss_mask has 2 values; accepted: 6"):
        read_trace(tmp_path)


def test_verls_mask_says_what_was_sampled(tmp_path: Path) -> None:
    line = {"input": "a b", "output": "c d e f", "gts": "", "score": 1.0, "step": 1, "uid": "u_0_0"}
    path = json_lines(tmp_path / "1.jsonl", line, {**line, "response_mask": [1, 1, 0, 0, 1, 0]})
    assert [one.tokens for one in read_trace(path, tokenizer=tokenizer(tmp_path)).steps[0].samples] == [4, 3]


@pytest.mark.parametrize(("words", "ends"), [(198, False), (200, False), (202, False), (190, True)])
def test_texts_within_a_few_tokens_of_the_cap_were_cut_by_it(words: int, ends: bool, tmp_path: Path) -> None:
    line = {"input": "a", "output": "w " * words, "gts": "", "score": 1.0, "step": 1}
    trace = read_trace(json_lines(tmp_path / "1.jsonl", line), tokenizer=tokenizer(tmp_path), cap=200)
    assert (trace.steps[0].samples[0].tokens, trace.steps[0].samples[0].ends) == (190 if ends else 200, ends)


def test_texts_far_above_the_cap_are_refused(tmp_path: Path) -> None:
    line = {"input": "a", "output": "w " * 220, "gts": "", "score": 1.0, "step": 1}
    with pytest.raises(ConfigError, match="output is 220; accepted: at most the cap, 200"):
        read_trace(json_lines(tmp_path / "1.jsonl", line), tokenizer=tokenizer(tmp_path), cap=200)
