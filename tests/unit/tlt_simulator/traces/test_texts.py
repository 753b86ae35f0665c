"""Texts are counted, hashed and forgotten: no trace, note or error has any of them."""

import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.unit.tlt_simulator.traces.written import WORDS, json_lines, tokenizer
from tlt_common.errors import ConfigError
from tlt_simulator.traces import read_trace


def dump(path: Path, values: Any) -> Path:
    """A file as `torch.save` writes it, of plain values."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{path.stem}/data.pkl", pickle.dumps(values, protocol=2))
        archive.writestr(f"{path.stem}/version", "3\n")
    return path


def sample(**changes: Any) -> dict[str, Any]:
    return {
        "group_index": 4,
        "prompt": WORDS,
        "tokens": [1, 2, 3, 4, 5],
        "response": WORDS,
        "response_length": 3,
        "label": WORDS,
        "status": "completed",
        "metadata": {WORDS: WORDS},
    } | changes


def verl(directory: Path) -> Path:
    rows = [{"input": f"{WORDS} {n}", "output": WORDS, "gts": WORDS, "score": 0.0, "step": 1} for n in (0, 1, 0)]
    return json_lines(directory / "1.jsonl", *rows)


def slime(directory: Path) -> Path:
    return dump(directory / "0.pt", {"rollout_id": 0, "samples": [sample(), sample(group_index=5)]})


def trl(directory: Path) -> Path:
    messages = [[{"role": "user", "content": WORDS}, {"role": "assistant", "content": None}]] * 2
    rows = {"step": [1, 1], "prompt": messages, "completion": [WORDS, WORDS], WORDS: [0.5, 0.5]}
    parquet.write_table(pa.table(rows), directory / "completions_00001.parquet")
    return directory / "completions_00001.parquet"


def prime(directory: Path) -> Path:
    return json_lines(directory / "traces.jsonl", episode(), episode(group=None))


def episode(**changes: Any) -> dict[str, Any]:
    return {
        "id": "e",
        "env": {"name": WORDS},
        "task": {"type": "T", "data": {"idx": 0, "prompt": WORDS}},
        "group": {"id": WORDS},
        "traces": [{"nodes": [{"message": {"role": "user", "content": WORDS}}], "calls": [call()]}],
    } | changes


def call(tokens: Any = 7, start: Any = 1.8e9, end: Any = 1.8e9 + 2, **usage: Any) -> dict[str, Any]:
    return {
        "finish_reason": "stop",
        "usage": {"prompt_tokens": 5, "completion_tokens": tokens} | usage,
        "time": {"start": start, "end": end},
    }


@pytest.mark.parametrize("write", [verl, slime, trl, prime])
def test_no_text_is_in_a_trace(write: Any, tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path), tokenizer=tokenizer(tmp_path))
    assert trace.responses >= 2
    assert all(word not in repr(trace) for word in WORDS.split())


def test_tokens_of_texts_are_counted(tmp_path: Path) -> None:
    trace = read_trace(verl(tmp_path), tokenizer=tokenizer(tmp_path))
    assert [(one.prompt, one.prompt_tokens, one.tokens) for one in trace.steps[0].samples] == [
        (0, 3, 2),
        (1, 3, 2),
        (0, 3, 2),
    ]
    assert any("without special tokens" in note for note in trace.notes)


def test_an_empty_text_is_a_response_of_special_tokens(tmp_path: Path) -> None:
    row = {"input": WORDS, "output": "", "gts": "", "score": 0.0, "step": 1}
    trace = read_trace(json_lines(tmp_path / "1.jsonl", row), tokenizer=tokenizer(tmp_path))
    assert trace.steps[0].samples[0].tokens == 1
    assert any("special tokens alone" in note for note in trace.notes)


def test_half_of_a_character_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "1.jsonl"
    path.write_text('{"input": "a \\ud800", "output": "b \\udfff c", "gts": "", "score": 0.0, "step": 1}\n')
    assert read_trace(path, tokenizer=tokenizer(tmp_path)).steps[0].samples[0].tokens == 3


def test_prompts_that_are_twice_in_a_step_are_groups_by_uid(tmp_path: Path) -> None:
    rows = [
        {"input": WORDS, "output": WORDS, "score": 0.0, "gts": "", "step": 1, "uid": f"{uid}_{n}_0"}
        for uid in ("a_1", "b_2")
        for n in (0, 1)
    ]
    trace = read_trace(json_lines(tmp_path / "1.jsonl", *rows), tokenizer=tokenizer(tmp_path), group=2)
    assert {one.prompt for one in trace.steps[0].samples} == {0}


@pytest.mark.parametrize("name", ["nothing", "1.jsonl"])
def test_a_tokenizer_that_is_none_is_refused(name: str, tmp_path: Path) -> None:
    path = verl(tmp_path)
    with pytest.raises(ConfigError, match=r"tokenizer: .*accepted: a tokenizer\.json"):
        read_trace(path, tokenizer=str(tmp_path / name))


class Harmful:
    """Calls a function when it is unpickled."""

    called = False

    def __reduce__(self) -> Any:
        return (setattr, (Harmful, "called", True))


def test_nothing_in_a_dump_is_run(tmp_path: Path) -> None:
    path = dump(tmp_path / "0.pt", {"rollout_id": 0, "samples": [sample(metadata=Harmful()), sample(reward={1, 2})]})
    assert read_trace(path).responses == 2
    assert not Harmful.called


def in_itself() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


DUMPS: list[tuple[Any, str]] = [
    (sample(prompt=in_itself()), "samples[1]: prompt is nested too deeply"),
    (sample(prompt={1: WORDS, WORDS: 1}), "samples[1]: prompt is nested too deeply, or of another type"),
    (sample(response_length=0), "samples[1]: response_length is 0"),
    (sample(response_length=True), "samples[1]: response_length is true or false"),
    (sample(response_length="3"), "samples[1]: response_length is the string"),
    (sample(response_length=float("nan")), "samples[1]: response_length is nan"),
    (sample(response_length=6), "samples[1]: tokens has 5"),
    (sample(tokens=WORDS), "samples[1]: tokens is a string"),
    (sample(tokens=Harmful()), "samples[1]: tokens is of another type"),
    (sample(status=WORDS), "samples[1]: status is a string"),
    (sample(group_index=-1), "samples[1]: group_index is -1"),
    (WORDS, "samples is a list"),
]


@pytest.mark.parametrize(("bad", "problem"), DUMPS)
def test_a_sample_is_refused_by_its_place(bad: Any, problem: str, tmp_path: Path) -> None:
    path = dump(tmp_path / "0.pt", {"rollout_id": 0, "samples": [sample(), bad]})
    with pytest.raises(ConfigError) as caught:
        read_trace(path)
    assert problem in caught.value.message
    assert not any(word in caught.value.message for word in WORDS.split())


@pytest.mark.parametrize("values", [None, 5, WORDS, {}, {"rollout_id": 0}, {"rollout_id": "0", "samples": []}])
def test_a_dump_of_something_else_is_refused(values: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="accepted: "):
        read_trace(dump(tmp_path / "0.pt", values))


@pytest.mark.parametrize("written", [b"", b"PK\x03\x04", b"\x80\x02}q\x00", WORDS.encode()])
def test_a_dump_that_is_damaged_is_refused(written: bytes, tmp_path: Path) -> None:
    (tmp_path / "0.pt").write_bytes(written)
    with pytest.raises(ConfigError, match="accepted: a file that torch"):
        read_trace(tmp_path / "0.pt")
    with zipfile.ZipFile(tmp_path / "1.pt", "w") as archive:
        archive.writestr("1/data.pkl", written)
    with pytest.raises(ConfigError, match=r"data\.pkl is damaged"):
        read_trace(tmp_path / "1.pt")


def test_evaluations_and_aborted_responses_are_left_out(tmp_path: Path) -> None:
    samples = [sample(), sample(status="aborted", response_length=0)]
    dump(tmp_path / "rollout_0.pt", {"rollout_id": 0, "samples": samples})
    dump(tmp_path / "rollout_eval_0.pt", {"rollout_id": 0, "samples": [sample()]})
    trace = read_trace(tmp_path)
    assert trace.responses == 1
    assert len([note for note in trace.notes if "left out" in note]) == 2


def test_a_rollout_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    for name in ("0.pt", "1.pt"):
        dump(tmp_path / name, {"rollout_id": 3, "samples": [sample()]})
    with pytest.raises(ConfigError, match=r"1\.pt: rollout_id is 3; accepted: more than 3"):
        read_trace(tmp_path)


def table(path: Path, **columns: Any) -> Path:
    parquet.write_table(pa.table(columns), path)
    return path


def test_a_table_that_repeats_the_one_before_is_left_out(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        texts = [WORDS] * (1 + step // 3)
        table(tmp_path / f"completions_{step:05}.parquet", step=[step] * len(texts), prompt=texts, completion=texts)
    trace = read_trace(tmp_path, tokenizer=tokenizer(tmp_path))
    assert [len(step.samples) for step in trace.steps] == [1, 2]
    assert any("completions_00002.parquet repeats" in note for note in trace.notes)
    assert "steps that are not in the log: 2" in trace.notes


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"step": [1], "prompt": [WORDS]}, "the column completion is missing"),
        ({"step": [1.5], "prompt": [WORDS], "completion": [WORDS]}, "row 1: step is 1.5"),
        ({"step": [None], "prompt": [WORDS], "completion": [WORDS]}, "row 1: step is null"),
        ({"step": [2], "prompt": [WORDS], "completion": [WORDS]}, "row 1: step is 2; accepted: 1"),
        ({"step": [1], "prompt": [5], "completion": [WORDS]}, "row 1: prompt is 5"),
        ({"step": [1, 1], "prompt": [WORDS] * 2, "completion": [WORDS, None]}, "row 2: completion is null"),
        ({"step": [1], "prompt": [WORDS], "completion": [[5]]}, "row 1: completion is a list"),
    ],
)
def test_a_table_is_refused_by_row_and_column(columns: Any, problem: str, tmp_path: Path) -> None:
    path = table(tmp_path / "completions_00001.parquet", **columns)
    with pytest.raises(ConfigError) as caught:
        read_trace(path, tokenizer=tokenizer(tmp_path))
    assert problem in caught.value.message
    assert not any(word in caught.value.message for word in WORDS.split())


@pytest.mark.parametrize("written", [b"", b"PAR1", b"PAR1" + bytes(99) + b"PAR1"])
def test_a_table_that_is_damaged_is_refused(written: bytes, tmp_path: Path) -> None:
    (tmp_path / "completions_00001.parquet").write_bytes(written)
    with pytest.raises(ConfigError, match="the file is not a complete table"):
        read_trace(tmp_path, tokenizer=tokenizer(tmp_path))


EPISODES: list[tuple[Any, str]] = [
    ({"traces": [{"calls": [call(0)]}]}, "completion_tokens is 0"),
    ({"traces": [{"calls": [call(True)]}]}, "completion_tokens is true or false"),
    ({"traces": [{"calls": [call(3_000_000)]}]}, "completion_tokens is 3000000"),
    ({"traces": [{"calls": [call(prompt_tokens=-1)]}]}, "prompt_tokens is -1"),
    ({"traces": [{"calls": [call(start=0.0)]}]}, "time.start is 0.0"),
    ({"traces": [{"calls": [call(end=5.0)]}]}, "time.end is 5.0; accepted: at least the start"),
    ({"traces": [{"calls": [call(end="now")]}]}, "time.end is a string"),
    ({"traces": [{"calls": WORDS}]}, "traces[0].calls is a string"),
    ({"traces": WORDS}, "traces is a string"),
    ({"group": {"id": 5}}, "group.id is 5"),
    ({"task": WORDS}, "task is a string"),
]


@pytest.mark.parametrize(("changes", "problem"), EPISODES)
def test_an_episode_is_refused_by_line_and_field(changes: Any, problem: str, tmp_path: Path) -> None:
    path = json_lines(tmp_path / "traces.jsonl", episode(), episode(**changes))
    with pytest.raises(ConfigError) as caught:
        read_trace(path)
    assert f"{path}:2: " in caught.value.message
    assert problem in caught.value.message
    assert not any(word in caught.value.message for word in WORDS.split())


@pytest.mark.parametrize("depth", [900, 960, 980, 990, 2000])
def test_what_is_nested_deeply_is_read_or_refused(depth: int, tmp_path: Path) -> None:
    text = json.dumps(episode(task={"data": WORDS})).replace(json.dumps(WORDS), "[" * depth + "]" * depth, 2)
    (tmp_path / "traces.jsonl").write_text(text)
    try:
        assert read_trace(tmp_path / "traces.jsonl", form="prime-rl").responses == 1
    except ConfigError as error:
        assert "nested too deeply" in error.message  # noqa: PT017


def test_a_dump_that_is_nested_deeply_is_refused(tmp_path: Path) -> None:
    deep = b"".join((b"\x80\x02", b"]" * 5000, b"a" * 4999, b"."))
    whole = pickle.dumps({"rollout_id": 0, "samples": [sample(prompt="DEEP")]}, protocol=2)
    text = b"X\x04\x00\x00\x00DEEP"
    assert text in whole
    with zipfile.ZipFile(tmp_path / "0.pt", "w") as archive:
        archive.writestr("0/data.pkl", whole.replace(text, deep[2:-1]))
    with pytest.raises(ConfigError, match="prompt is nested too deeply"):
        read_trace(tmp_path / "0.pt")


def test_all_episodes_are_read_rather_than_those_of_batches(tmp_path: Path) -> None:
    for subset, tokens in (("all", 9), ("effective", 5)):
        path = tmp_path / "rollouts" / "step_3" / "train" / subset / "traces.jsonl"
        json_lines(path, episode(traces=[{"calls": [call(tokens)]}]), episode(traces=[], ok=False))
    (tmp_path / "rollouts" / "step_3" / "eval").mkdir()
    assert [one.tokens for one in read_trace(tmp_path).steps[0].samples] == [9]


def test_steps_that_run_backwards_are_refused(tmp_path: Path) -> None:
    for step, start in ((1, 1.8e9), (2, 1.7e9)):
        path = tmp_path / "rollouts" / f"step_{step}" / "train" / "effective" / "traces.jsonl"
        json_lines(path, episode(traces=[{"calls": [call(start=start, end=start + 1)]}]))
    with pytest.raises(ConfigError, match=r"the beginning of the step is 1e\+08 s before that of the step before it"):
        read_trace(tmp_path)
