"""A drafter is trained and scored on a file of rollouts."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from tests.unit.tlt_trainer.tiny import VOCAB, TinyPolicy, frames_of
from tlt_common.drafter.meta import CONFIG_FILE, WEIGHTS_FILE, meta_of
from tlt_common.errors import ConfigError
from tlt_trainer.cli import app
from tlt_trainer.offline.rollouts import Rollout, read_rollouts
from tlt_trainer.offline.states import frames_of as captured

PROMPT = 4


def line(ids: list[int], prompt: int = PROMPT) -> dict[str, Any]:
    return {"prompt_token_ids": ids[:prompt], "token_ids": ids[prompt:], "reward": 1.0}


@pytest.fixture(scope="module")
def data(policy: TinyPolicy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "rollouts.jsonl"
    frames = frames_of(policy, 64, seed=1, tokens=64)
    path.write_text("\n".join(json.dumps(line(frame.token_ids.tolist())) for frame in frames) + "\n")
    return path


def tlt(*arguments: str | Path) -> dict[str, Any]:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_windows_are_those_an_engine_captures(policy: TinyPolicy) -> None:
    (frame,) = frames_of(policy, 1, tokens=64, prompt=PROMPT)
    ids = frame.token_ids.tolist()
    rollout = Rollout(prompt=tuple(ids[:PROMPT]), response=tuple(ids[PROMPT:]))
    first, second, third = captured(policy.model.model, rollout, "r", frame_tokens=24)
    assert [part.header.start for part in (first, second, third)] == [0, 24, 48]
    assert third.header.finished
    assert first.header.prompt_hash == frame.header.prompt_hash
    assert torch.cat([part.token_ids[:-1] for part in (first, second, third)]).tolist() == ids[:-1]
    states = torch.cat([part.hidden for part in (first, second, third)])
    torch.testing.assert_close(states.float(), frame.hidden.float(), rtol=1e-2, atol=1e-2)


def test_windows_of_the_prompt_alone_are_left_out(policy: TinyPolicy) -> None:
    rollout = Rollout(prompt=tuple(range(40)), response=(1, 2, 3))
    assert [frame.header.start for frame in captured(policy.model.model, rollout, "r", frame_tokens=16)] == [32]


def test_what_is_trained_can_be_scored_continued_and_served(policy: TinyPolicy, data: Path, tmp_path: Path) -> None:
    common = ("--model", policy.directory, "--data", data, "--device", "cpu")
    short = tlt("train", *common, "--to", tmp_path / "short", "--epochs", "1")
    longer = tlt("train", *common, "--to", tmp_path / "longer", "--epochs", "12", "--from", tmp_path / "short")
    assert longer["accept_length"] > short["accept_length"] > 1.0
    assert longer["top1"][0] > 0.5
    scored = [tlt("evaluate", tmp_path / name, *common)["accept_length"] for name in ("short", "longer")]
    assert scored[1] > scored[0]
    files = {path.name: path.read_bytes() for path in (tmp_path / "longer").iterdir()}
    assert {WEIGHTS_FILE, CONFIG_FILE} < files.keys()
    assert meta_of(files).held_out_top1 == pytest.approx(longer["top1"][0], abs=1e-3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "has no rollouts; accepted: a JSON object per line"),
        ('{"prompt_token_ids": [1], "token_ids": [2]}\n{', "jsonl:2 is not JSON"),
        ("[1]", "jsonl:1 is not a JSON object"),
        ('{"prompt_token_ids": [1]}', "jsonl:1: token_ids is missing or invalid; accepted: a list .* from 0 to 47"),
        ('{"prompt_token_ids": [], "token_ids": [2]}', "prompt_token_ids is missing or invalid"),
        ('{"prompt_token_ids": [1], "token_ids": [48]}', "token_ids is missing or invalid"),
        ('{"prompt_token_ids": [true], "token_ids": [2]}', "prompt_token_ids is missing or invalid"),
        ('{"prompt_token_ids": [1], "token_ids": [2.0]}', "token_ids is missing or invalid"),
    ],
)
def test_bad_data_is_refused_by_line_and_key(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "data.jsonl").write_text(content)
    with pytest.raises(ConfigError, match=message) as refused:
        read_rollouts(tmp_path / "data.jsonl", vocab_size=VOCAB)
    assert refused.value.field == "data"


def test_data_that_leaves_nothing_to_train_or_score_on_is_refused(policy: TinyPolicy, tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    common = ("--model", str(policy.directory), "--data", str(path), "--to", str(tmp_path / "to"), "--device", "cpu")
    for lines, message in (
        ([line([1, 2, 3, 4, 5, 6])], "only prompts to score on"),
        ([line([n, 2, 3, 4, 5]) for n in range(12)], "no token to score on"),
    ):
        path.write_text("\n".join(map(json.dumps, lines)))
        with pytest.raises(ConfigError, match=message):
            CliRunner().invoke(app, ["train", *common], catch_exceptions=False)
    assert not list((tmp_path / "to").iterdir())


def test_arguments_are_checked_before_anything_is_loaded(policy: TinyPolicy, data: Path, tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    (full / "file").touch()
    good = {"--model": str(policy.directory), "--data": str(data), "--to": str(tmp_path / "to"), "--device": "cpu"}
    for option, value, message in (
        ("--to", str(full), "--to: .*accepted: an empty or absent directory"),
        ("--to", str(full / "file" / "to"), "--to: .*cannot be written"),
        ("--model", str(tmp_path), "model is .*accepted: a directory with config.json"),
        ("--data", str(tmp_path / "none"), "--data: .*cannot be read"),
        ("--device", "tpu", "--device is 'tpu'; accepted: auto, cpu, cuda"),
        ("--from", str(full), "accepted: the directory or URL of a published drafter"),
    ):
        arguments = [part for pair in {**good, option: value}.items() for part in pair]
        with pytest.raises(ConfigError, match=message):
            CliRunner().invoke(app, ["train", *arguments], catch_exceptions=False)
