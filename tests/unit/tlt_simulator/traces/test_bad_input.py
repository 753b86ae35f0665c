"""What is wrong in a log is refused by file, line and field, with what is accepted; nothing is guessed."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.tlt_simulator.traces.written import SAMPLES, WORDS, json_lines, tokenizer
from tlt_common.errors import ConfigError
from tlt_simulator.traces import logfile, read_trace
from tlt_simulator.traces.reading import FORMS

GOOD: dict[str, dict[str, Any]] = {
    "lengths": {"step": 1, "prompt": 3, "tokens": 70, "prompt_tokens": 5, "ends": True, "after_s": 0.0, "seconds": 2.0},
    "mooncake": {"timestamp": 10, "input_length": 600, "output_length": 70, "hash_ids": [1, 2]},
    "servegen": {"request_id": 5, "type": "text", "input_length": 60, "output_length": 70, "duration": 900},
    "verl": {"input": WORDS, "output": WORDS, "gts": WORDS, "score": 1.0, "step": 1},
}
WHOLE: list[Any] = [0, -1, True, False, None, "12", "", WORDS, 1.5, 12.0, 3_000_000, 10**30, [1], {"a": 1}]
TIMES: list[Any] = [-0.1, True, None, "1", WORDS, 1e12, [1.0]]
CASES: list[tuple[str, dict[str, Any], str]] = [
    *(("lengths", {field: value}, field) for field in ("tokens", "prompt_tokens") for value in WHOLE),
    *(("lengths", {field: value}, field) for field in ("after_s", "seconds") for value in TIMES),
    *(("lengths", {"step": value}, "step") for value in (-1, True, None, "1", 1.5, 10**12)),
    *(("lengths", {"prompt": value}, "prompt") for value in (None, True, 1.5, "", [1], {"a": 1})),
    *(("lengths", {"ends": value}, "ends") for value in (0, 1, "true", None)),
    *(("lengths", {"promt": 1}, "promt"),),
    *(("lengths", {WORDS: 1}, "a field"),),
    *(("lengths", {"seconds": 0.0}, "duration"),),
    *(("lengths", {"seconds": 1e7}, "duration"),),
    *(("mooncake", {field: value}, field) for field in ("input_length", "output_length") for value in WHOLE),
    *(("mooncake", {"timestamp": value}, "timestamp") for value in (-1, 1.5, True, None, "1", 10**12)),
    *(("mooncake", {"hash_ids": value}, "hash_ids") for value in ([], None, [WORDS], [1.5], [True], 5, WORDS)),
    *(("servegen", {field: value}, field) for field in ("input_length", "output_length") for value in WHOLE),
    *(("servegen", {"duration": value}, "duration") for value in (0, -1, 1.5, True, "900", WORDS, 10**10)),
    *(("servegen", {"request_id": value}, "request_id") for value in (-1, True, None, "5", 1.5)),
    *(("verl", {"step": value}, "step") for value in (-1, True, None, "1", 1.5)),
    *(("verl", {field: value}, field) for field in ("input", "output") for value in (None, 5, [WORDS], {WORDS: 1})),
]


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        read_trace(path, **options)
    assert "accepted: " in caught.value.message
    assert not any(word in caught.value.message for word in WORDS.split())
    assert caught.value.field
    return caught.value.message


@pytest.mark.parametrize(("form", "change", "field"), CASES)
def test_a_value_is_refused_by_file_line_and_field(
    form: str, change: dict[str, Any], field: str, tmp_path: Path
) -> None:
    path = json_lines(tmp_path / "log.jsonl", GOOD[form] | change)
    message = refusal(path, form=form)
    assert message.startswith(f"{path}:1: ")
    assert field in message


@pytest.mark.parametrize("form", ["lengths", "mooncake", "servegen"])
def test_what_is_missing_is_named(form: str, tmp_path: Path) -> None:
    needed = {"lengths": ["tokens", "prompt"], "servegen": ["input_length", "output_length", "request_id"]}
    for field in needed.get(form, list(GOOD[form])):
        row = {name: value for name, value in GOOD[form].items() if name != field}
        path = json_lines(tmp_path / f"{field}.jsonl", row)
        assert f"{path}:1: {field} is missing" in refusal(path, form=form)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_is_not_finite_is_refused(number: str, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(f'{{"prompt": 1, "tokens": {number}}}\n')
    assert refusal(path).startswith(f"{path}:1: tokens is {float(number)!r}; accepted: a whole number")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_a_number_that_nobody_reads_may_be_anything(number: str, tmp_path: Path) -> None:
    path = tmp_path / "1.jsonl"
    path.write_text(f'{{"input": "a", "output": "b b", "gts": "c", "score": {number}, "step": 1}}\n')
    assert read_trace(path, tokenizer=tokenizer(tmp_path)).responses == 1


BYTES = {
    b'{"prompt": 1, "tokens": 5}\n{"prompt": 1, "tok': ":2: the line is cut off",
    b'{"prompt": 1, "tokens": 5}\n{"prompt": 1, "tok\n{}\n': ":2: the line is not JSON",
    b'{"prompt": 1, "tokens": 5}\n{"prompt": "xyzzy \xff", "tokens": 5}\n': ":2: the line is not UTF-8 at byte",
    b'{"prompt": 1, "tokens": 5}\n[1, 2]\n': ":2: the line is a list",
    b'{"prompt": 1, "tokens": 5}\n5\n': ":2: the line is 5",
    b'{"prompt": 1, "tokens": 5}\n"xyzzy"\n': ":2: the line is a string of 5 characters",
    b'{"prompt": 1, "tokens": 5}\n' + b"[" * 100_000 + b"\n": ":2: the line is not JSON",
    b'{"prompt": 1, "tokens": 5}\n{"prompt": 1, "tokens": 1' + b"0" * 5000 + b"}\n": ":2: the line is not JSON",
    '{"prompt": 1, "tokens": 5}\n'.encode("utf-16"): ":1: the encoding is UTF-16",
    b"": " it is empty",
    b"\n\r\n  \n": " it is empty",
    b"\x00\x01\x02": ":1: the line is",
    b'{"prompt": 1, "tokens": 5}\n{"prompt": 1, "tokens": 5, "ends": true}\n': ":2: ends is missing in the",
    b'{"prompt": 1, "tokens": 5}\n{"tokens": 5}\n': ":2: prompt is missing",
    b'{"step": 2, "prompt": 1, "tokens": 5}\n{"step": 1, "prompt": 1, "tokens": 5}\n': ":2: step is 1, after step 2",
    b'{"step": 1, "prompt": 1, "tokens": 5}\n{"step": 2, "prompt": 1, "tokens": 5}\n'
    b'{"step": 1, "prompt": 1, "tokens": 5}\n': ":3: step is 1, after step 2",
}


@pytest.mark.parametrize("written", BYTES)
def test_a_damaged_file_is_refused_by_line(written: bytes, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(written)
    assert BYTES[written] in refusal(path)


TABLES = {
    "": " it is empty",
    "step,prompt,tokens\n": " it has no responses",
    "1,2,3\n1,2,3\n": ":1: column 1 is of another name",
    "prompt;tokens\n1;5\n": ":1: column 1 is of another name",
    "prompt,tokens,xyzzy plugh\n1,5,1\n": ":1: column 3 is of another name",
    "prompt,tokens,tokens\n1,5,5\n": ":1: a column appears twice",
    "step,prompt\n1,5\n": ":1: tokens is missing",
    "prompt,tokens\n1,5\n1\n": ":3: the line has 1 values",
    "prompt,tokens\n1,5,6\n": ":2: the line has 3 values",
    "prompt,tokens\n1,\n": ":2: tokens is a string of 0 characters",
    "prompt,tokens\n1,0\n": ":2: tokens is 0",
    "prompt,tokens\n1,-5\n": ':2: tokens is the string "-5"',
    "prompt,tokens\n1,5.0\n": ':2: tokens is the string "5.0"',
    "prompt,tokens\n1,nan\n": ':2: tokens is the string "nan"',
    "prompt,tokens\n1,1_000\n": ':2: tokens is the string "1_000"',
    "prompt,tokens\n1,1e3\n": ':2: tokens is the string "1e3"',
    "prompt,tokens\n1,\u0665\n": ":2: tokens is a string of 1 characters",
    "prompt,tokens\n1,true\n": ":2: tokens is a string of 4 characters",
    "prompt,tokens\n1,99999999999999999999\n": ":2: tokens is the string",
    'prompt,tokens\n1,"1,000"\n': ':2: tokens is the string "1,000"',
    'prompt,tokens\n1,"5\n': ":2: the line is no CSV",
    "prompt,tokens\n,5\n": ":2: prompt is a string of 0 characters",
    "prompt,tokens,ends\n1,5,1\n": ':2: ends is the string "1"',
    "prompt,tokens,seconds\n1,5,-1\n": ':2: seconds is the string "-1"',
    "prompt,tokens,seconds\n1,5,inf\n": ':2: seconds is the string "inf"',
    "prompt,tokens,seconds\n1,5,3 s\n": ":2: seconds is a string of 3 characters",
    "tokens\n5\n": ":2: prompt is missing",
    "prompt,tokens,rollout_s\n1,5,9\n1,5,8\n": ":3: rollout_s is 8",
    "prompt,tokens,rollout_s,step_s\n1,5,9,8\n": ":2: step_s is 8",
    "prompt,tokens,after_s,rollout_s\n1,5,0,9\n1,6,10,9\n": ":3: the end of the response is 10 s after",
    "prompt,tokens,seconds,rollout_s\n1,500,8,9\n1,600,9.5,9\n": ":3: the end of the response is 9.5 s after",
}


@pytest.mark.parametrize("written", TABLES)
def test_a_table_is_refused_by_line_and_column(written: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(written)
    assert TABLES[written] in refusal(path)


def test_a_byte_order_mark_other_line_ends_and_gzip_are_accepted(tmp_path: Path) -> None:
    table = b"\xef\xbb\xbfprompt,tokens\r\n\r\n7,5\r\n7,6"
    (tmp_path / "log.csv").write_bytes(table)
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(table))
    (tmp_path / "log.jsonl").write_bytes(b'\xef\xbb\xbf{"prompt": "7", "tokens": 5}\r\n{"prompt": "7", "tokens": 6}')
    read = [read_trace(tmp_path / name).steps for name in ("log.csv", "log.csv.gz", "log.jsonl")]
    assert read[0] == read[1] == read[2]


def test_a_cut_gzip_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.csv.gz"
    path.write_bytes(gzip.compress(b"prompt,tokens\n" + b"".join(b"%d,5\n" % one for one in range(9999)))[:-500])
    assert "the file is cut or damaged" in refusal(path)


def test_a_line_without_end_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logfile, "MAX_LINE_BYTES", 2**20)
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"prompt": 1, "tokens": 5}\n' + b" " * 2**21)
    assert f"{path}:2: the line has more than 1 MiB" in refusal(path)


def test_groups_are_checked_if_their_size_is_given(tmp_path: Path) -> None:
    rows = [{"step": 1, "prompt": p, "tokens": 5} for p in (1, 1, 2, 2)]
    assert read_trace(json_lines(tmp_path / "good.jsonl", *rows), group=2).responses == 4
    more = json_lines(tmp_path / "more.jsonl", *rows, rows[0])
    assert f"{more}:5: prompt has 3 responses in step 1; its first is at {more}:1" in refusal(more, group=2)
    double = json_lines(tmp_path / "double.jsonl", *rows, *rows)
    assert ":5: prompt has 3 responses" in refusal(double, group=2)
    fewer = json_lines(tmp_path / "fewer.jsonl", *rows[:3])
    assert f"{fewer}:3: prompt has 1 of 2 responses in step 1" in refusal(fewer, group=2)


def test_groups_follow_each_other_if_a_log_does_not_name_them(tmp_path: Path) -> None:
    rows = [{"step": step, "tokens": 5} for step in (1, 1, 1, 1, 2, 2)]
    trace = read_trace(json_lines(tmp_path / "log.jsonl", *rows), group=2)
    assert [[one.prompt for one in step.samples] for step in trace.steps] == [[0, 0, 1, 1], [2, 2]]
    assert any("order of responses" in note for note in trace.notes)
    path = json_lines(tmp_path / "odd.jsonl", *rows[:3])
    assert f"{path}:3: prompt has 1 of 2 responses" in refusal(path, group=2)
    assert f"{path}:1: prompt is missing" in refusal(path)


def test_more_than_the_cap_is_refused(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "log.jsonl", {"prompt": 1, "tokens": 5}, {"prompt": 1, "tokens": 6})
    assert f"{path}:2: tokens is 6; accepted: at most the cap, 5" in refusal(path, cap=5)
    assert [one.ends for one in read_trace(path, cap=6).steps[0].samples] == [True, False]


@pytest.mark.parametrize("option", ["group", "cap"])
@pytest.mark.parametrize("value", [0, -1, True, 1.5, "8"])
def test_an_option_is_refused_by_name(option: str, value: Any) -> None:
    assert option in refusal(SAMPLES / "mooncake", **{option: value})


def test_times_that_run_backwards_are_refused(tmp_path: Path) -> None:
    first = GOOD["mooncake"]
    path = json_lines(tmp_path / "log.jsonl", first | {"timestamp": 5000}, first | {"timestamp": 6})
    assert f"{path}:2: timestamp is 6; accepted: at least 5000" in refusal(path)


def test_two_units_in_one_log_are_refused(tmp_path: Path) -> None:
    rows = [{"step": 1, "prompt": n, "tokens": 500 + 40 * n, "seconds": 5.0 + n / 3} for n in range(20)]
    assert read_trace(json_lines(tmp_path / "s.jsonl", *rows)).steps[0].rollout_s == pytest.approx(34 / 3)
    rows[7] = rows[7] | {"seconds": 1000 * rows[7]["seconds"]}
    path = json_lines(tmp_path / "log.jsonl", *rows)
    assert f"{path}:8: the duration is " in refusal(path)
    later = [row | {"step": 2, "seconds": 1000 * row["seconds"]} for row in rows[:7]]
    path = json_lines(tmp_path / "steps.jsonl", *rows[:7], *later)
    assert f"{path}:" in refusal(path)
    assert "in the step before it" in refusal(path)
    milliseconds = [row | {"seconds": 20_000 * row["seconds"]} for row in rows[:7]]
    assert "s per token" in refusal(json_lines(tmp_path / "ms.jsonl", *milliseconds))


def test_a_response_that_waited_long_is_no_other_unit(tmp_path: Path) -> None:
    rows = [{"prompt": n, "tokens": 3000, "seconds": 30.0} for n in range(8)]
    path = json_lines(tmp_path / "log.jsonl", *rows, {"prompt": 9, "tokens": 1, "seconds": 29.0})
    assert read_trace(path).responses == 9


def test_a_form_is_not_guessed(tmp_path: Path) -> None:
    both = json_lines(tmp_path / "log.jsonl", GOOD["mooncake"] | {"tokens": 5})
    message = refusal(both)
    assert "mooncake" in message
    assert "lengths" in message
    assert "no known form" in refusal(json_lines(tmp_path / "none.jsonl", {"a": 1}))
    assert "not a form of log" in refusal(both, form="verk")
    assert "is missing" in refusal(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    assert "no known form" in refusal(tmp_path / "empty")
    for form in FORMS:
        assert refusal(tmp_path / "empty", form=form.name)
        assert "is missing" in refusal(tmp_path / "nothing", form=form.name)


def test_files_that_do_not_belong_are_named(tmp_path: Path) -> None:
    for step in (2, 10, 9):
        json_lines(tmp_path / f"{step}.jsonl", GOOD["mooncake"])
    (tmp_path / "README.md").write_text(WORDS)
    (tmp_path / ".hidden").write_text(WORDS)
    trace = read_trace(tmp_path)
    assert len(trace.steps) == 3
    assert "files that were left out: README.md" in trace.notes


@pytest.mark.parametrize("name", ["validation.jsonl", "3b.jsonl", "1.jsonl.gz", "01.jsonl"])
def test_a_directory_of_steps_with_another_log_is_refused(name: str, tmp_path: Path) -> None:
    for step in (1, 2):
        json_lines(tmp_path / f"{step}.jsonl", GOOD["verl"] | {"step": step})
    json_lines(tmp_path / name, GOOD["verl"])
    message = refusal(tmp_path, form="verl")
    assert str(tmp_path) in message


def test_a_step_that_is_not_that_of_its_file_is_refused(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "7.jsonl", GOOD["verl"])
    assert f"{path}:1: step is 1; accepted: 7" in refusal(tmp_path)


def test_a_directory_of_two_forms_is_refused(tmp_path: Path) -> None:
    json_lines(tmp_path / "1.jsonl", GOOD["verl"])
    (tmp_path / "1.csv").write_text("prompt,tokens\n1,5\n")
    message = refusal(tmp_path)
    assert "verl" in message
    assert "lengths" in message


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "log.jsonl")
    assert "is not a file" in refusal(tmp_path / "log.jsonl", form="lengths")
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    assert "is missing" in refusal(tmp_path / "gone.jsonl")


def test_rows_of_json_are_read_as_written() -> None:
    assert json.loads(json.dumps(GOOD)) == GOOD
