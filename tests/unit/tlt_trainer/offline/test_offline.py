"""A drafter is trained and scored on a file of rollouts."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from tests.unit.tlt_trainer.tiny import CPU, VOCAB, TinyPolicy, frames_of
from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.meta import CONFIG_FILE, WEIGHTS_FILE, DrafterMeta, meta_of
from tlt_common.drafter.tensors import BIAS, MAP
from tlt_common.errors import ConfigError
from tlt_common.recorded_rollouts import RecordedRollout, RolloutFile
from tlt_trainer.cli import app
from tlt_trainer.data.pack import collate
from tlt_trainer.drafter.files import to_files
from tlt_trainer.drafter.shared_weights import SharedWeights, read_config, trained_format
from tlt_trainer.drafter.vocabulary import tokens_of
from tlt_trainer.learner import Learner
from tlt_trainer.offline import training
from tlt_trainer.offline.beginning import WantedDrafter, beginning, published
from tlt_trainer.offline.commands import train_to
from tlt_trainer.offline.course import Progress
from tlt_trainer.offline.exporting import export_to
from tlt_trainer.offline.states import frames_of as captured
from tlt_worker.checkpoints.drafter import next_drafter
from tlt_worker.checkpoints.drafter_files import read_format

PROMPT = 4


def line(ids: list[int], prompt: int = PROMPT) -> dict[str, Any]:
    return {"prompt_token_ids": ids[:prompt], "token_ids": ids[prompt:], "reward": 1.0}


@pytest.fixture(scope="module")
def data(policy: TinyPolicy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "rollouts.jsonl"
    frames = frames_of(policy, 64, seed=1, tokens=64)
    path.write_text("\n".join(json.dumps(line(frame.token_ids.tolist())) for frame in frames) + "\n")
    return path


def tlt(*arguments: str | int | Path) -> dict[str, Any]:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_windows_are_those_an_engine_captures(policy: TinyPolicy) -> None:
    (frame,) = frames_of(policy, 1, tokens=64, prompt=PROMPT)
    ids = frame.token_ids.tolist()
    rollout = RecordedRollout(prompt=tuple(ids[:PROMPT]), response=tuple(ids[PROMPT:]))
    first, second, third = captured(policy.model.model, rollout, "r", frame_tokens=24)
    assert [part.header.start for part in (first, second, third)] == [0, 24, 48]
    assert third.header.finished
    assert first.header.prompt_hash == frame.header.prompt_hash
    assert torch.cat([part.token_ids[:-1] for part in (first, second, third)]).tolist() == ids[:-1]
    states = torch.cat([part.hidden for part in (first, second, third)])
    torch.testing.assert_close(states.float(), frame.hidden.float(), rtol=1e-2, atol=1e-2)


def test_windows_for_eagle3_hold_the_layers_it_reads_and_the_last_state(deep_policy: TinyPolicy) -> None:
    (frame,) = frames_of(deep_policy, 1, tokens=24, prompt=PROMPT)
    ids = frame.token_ids.tolist()
    made, model = list[torch.Tensor](), deep_policy.model.model
    hooks = [layer.register_forward_hook(lambda _module, _args, out: made.append(out)) for layer in model.layers]
    rollout = RecordedRollout(prompt=tuple(ids[:PROMPT]), response=tuple(ids[PROMPT:]))
    (window,) = captured(model, rollout, "r", layers=(0, 2))
    for hook in hooks:
        hook.remove()
    assert window.header.hidden_size == 96
    assert torch.equal(window.hidden[:, :64], torch.cat((made[0], made[2]), -1)[0, :24].bfloat16())
    assert torch.equal(window.hidden[:, 64:], model.norm(made[3])[0, :24].bfloat16())


def test_windows_of_the_prompt_alone_are_left_out(policy: TinyPolicy) -> None:
    rollout = RecordedRollout(prompt=tuple(range(40)), response=(1, 2, 3))
    assert [frame.header.start for frame in captured(policy.model.model, rollout, "r", frame_tokens=16)] == [32]


def test_what_is_trained_can_be_scored_continued_and_served(policy: TinyPolicy, data: Path, tmp_path: Path) -> None:
    common = ("--model", policy.directory, "--data", data, "--device", "cpu")
    short = tlt("train", *common, "--to", tmp_path / "short", "--epochs", "1")
    longer = tlt("train", *common, "--to", tmp_path / "longer", "--epochs", "12", "--from", tmp_path / "short")
    assert longer["accept_length"] > short["accept_length"] > 1.0
    assert longer["top1"][0] > 0.4
    scored = [tlt("evaluate", tmp_path / name, *common)["accept_length"] for name in ("short", "longer")]
    assert scored[1] > scored[0]
    files = {path.name: path.read_bytes() for path in (tmp_path / "longer").iterdir()}
    assert {WEIGHTS_FILE, CONFIG_FILE} < files.keys()
    assert meta_of(files).held_out_top1 == pytest.approx(longer["top1"][0], abs=1e-3)


def test_an_eagle3_drafter_is_trained_scored_continued_and_served(
    deep_policy: TinyPolicy, data: Path, tmp_path: Path
) -> None:
    common = ("--model", deep_policy.directory, "--data", data, "--device", "cpu")
    new = ("--kind", "eagle3", "--layers", "0,2", "--draft-vocabulary", 40, "--passes", 3)
    short = tlt("train", *common, "--to", tmp_path / "short", *new, "--epochs", "1")
    longer = tlt("train", *common, "--to", tmp_path / "longer", "--epochs", "4", "--from", tmp_path / "short")
    assert longer["accept_length"] > short["accept_length"] > 1.0
    assert 0.8 < longer["coverage"] < 1.0
    scored = tlt("evaluate", tmp_path / "longer", *common, "--drafts", 5)
    assert len(scored["top1"]) == 5
    target = json.loads((deep_policy.directory / "config.json").read_text())
    form = read_format(tmp_path / "longer", target)
    assert (form.has_map, form.layers, form.draft_vocab_size) == (True, (0, 2), 40)
    engine = trained_format(target, DrafterArchitecture.EAGLE3, layers=(0, 2))
    taken = dict(next_drafter(tmp_path / "longer", engine, target))
    assert taken[MAP].shape == (48,)


def test_a_block_drafter_is_trained_scored_continued_exported_and_served(
    deep_policy: TinyPolicy, data: Path, tmp_path: Path
) -> None:
    common = ("--model", deep_policy.directory, "--data", data, "--device", "cpu")
    new = ("--kind", "block", "--layers", "0,2")
    short = tlt("train", *common, "--to", tmp_path / "short", *new, "--epochs", "1")
    longer = tlt("train", *common, "--to", tmp_path / "longer", "--epochs", "12", "--from", tmp_path / "short")
    assert longer["accept_length"] > short["accept_length"] >= 1.0
    assert longer["coverage"] == 1.0
    assert len(tlt("evaluate", tmp_path / "longer", *common, "--drafts", 16)["top1"]) == 7, "a block has no more"
    target = json.loads((deep_policy.directory / "config.json").read_text())
    form = read_format(tmp_path / "longer", target)
    assert (form.architecture, form.layers, form.block_drafts) == ("block", (0, 2), 7)
    taken = dict(next_drafter(tmp_path / "longer", trained_format(target, form.architecture, layers=(0, 2)), target))
    done = CliRunner().invoke(app, ["export", str(tmp_path / "longer"), "--to", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    written = load_file(tmp_path / "out" / WEIGHTS_FILE)
    assert written.keys() == taken.keys()
    assert all(torch.equal(written[name], tensor) for name, tensor in taken.items())
    card = (tmp_path / "out" / "README.md").read_text()
    assert "--speculative-algorithm DSPARK" in card
    assert "a draft model of 2 layers" in card.lower()
    with pytest.raises(ConfigError, match="block drafters cannot be exported for vLLM"):
        export_to(str(tmp_path / "longer"), tmp_path / "vllm", "vllm")


def test_draft_tokens_are_chosen_again_for_other_responses(deep_policy: TinyPolicy, tmp_path: Path) -> None:
    common = ("--model", deep_policy.directory, "--device", "cpu", "--epochs", 1)
    new = ("--kind", "eagle3", "--layers", "0,2", "--draft-vocabulary", 8, "--passes", 1)
    found = []
    for low, begin in ((8, new), (12, ("--from", tmp_path / "8")), (12, ("--from", tmp_path / "12"))):
        lines = [line([n, 0, 0, 0, *(low + (n + m) % 8 for m in range(12))]) for n in range(12)]
        (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, lines)))
        to = tmp_path / (str(low) if begin[-1] != tmp_path / "12" else "again")
        assert tlt("train", *common, "--data", tmp_path / "data.jsonl", "--to", to, *begin)["coverage"] == 1.0
        found.append(tokens_of(load_file(to / WEIGHTS_FILE)[MAP]).tolist())
    assert found == [list(range(8, 16)), list(range(12, 20)), list(range(12, 20))]


@pytest.mark.parametrize(
    ("wanted", "message", "field"),
    [
        (WantedDrafter(kind="medusa"), "--kind is 'medusa'; accepted: eagle, eagle3, block", "kind"),
        (WantedDrafter(layers="1,2"), "--layers is 1,2; accepted: with --kind eagle3", "layers"),
        (
            WantedDrafter(draft_vocabulary=8),
            "--draft-vocabulary is 8; accepted: with --kind eagle3",
            "draft_vocabulary",
        ),
        (WantedDrafter(kind="eagle3", layers="1-2"), "--layers is '1-2'; accepted: numbers with commas", "layers"),
        (WantedDrafter(kind="eagle3", layers="0,3"), "accepted: ascending numbers from 0 to 2", "layers"),
        (WantedDrafter(kind="eagle3", layers="1"), "accepted: at least two layers", "layers"),
        (WantedDrafter(kind="block", draft_vocabulary=8), "accepted: with --kind eagle3", "draft_vocabulary"),
        (WantedDrafter(kind="eagle3"), "--layers: the target has only 4 layers; .*; give --layers", "layers"),
        (WantedDrafter(kind="eagle3", begin="DRAFTER"), "--kind is eagle3; the drafter at .* is eagle", "kind"),
        (WantedDrafter(layers="0,1", begin="DRAFTER"), "without --from, whose drafter has its own", "layers"),
    ],
)
def test_bad_choices_are_refused_by_name(
    deep_policy: TinyPolicy, policy: TinyPolicy, tmp_path: Path, wanted: WantedDrafter, message: str, field: str
) -> None:
    meta = DrafterMeta(version=1, base=0, worker_id="w", steps=0, tokens=0, held_out_top1=0)
    for name, content in to_files(Learner(policy.form, CPU).weights(), policy.form, meta).items():
        (tmp_path / name).write_bytes(content)
    if wanted.begin:
        wanted = replace(wanted, begin=str(tmp_path))
    with pytest.raises(ConfigError, match=message) as refused:
        beginning(wanted, read_config(deep_policy.directory))
    assert refused.value.field == field


def test_a_drafter_with_a_bias_is_refused(policy: TinyPolicy, tmp_path: Path) -> None:
    """Neither layer of the trainer has one: it would be another drafter without it."""
    meta = DrafterMeta(version=1, base=0, worker_id="w", steps=0, tokens=0, held_out_top1=0)
    for name, content in to_files(Learner(policy.form, CPU).weights(), policy.form, meta).items():
        (tmp_path / name).write_bytes(content)
    target = read_config(policy.directory)
    assert published(str(tmp_path), target, "source")[1].form == policy.form
    tensors = load_file(tmp_path / WEIGHTS_FILE)
    save_file({**tensors, BIAS: torch.ones(32)}, tmp_path / WEIGHTS_FILE)
    with pytest.raises(ConfigError, match=r"fc\.bias is not zero"):
        published(str(tmp_path), target, "source")


@pytest.mark.parametrize(
    ("config", "message"),
    [("{", "not JSON"), ("[]", "not a JSON object"), ('{"architectures": ["X"]}', "architecture is 'X'; accepted")],
)
def test_a_drafter_that_is_none_is_refused(policy: TinyPolicy, tmp_path: Path, config: str, message: str) -> None:
    (tmp_path / CONFIG_FILE).write_text(config)
    with pytest.raises(ConfigError, match=message) as refused:
        published(str(tmp_path), read_config(policy.directory), "source")
    assert refused.value.field == "source"


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
        list(RolloutFile(path=tmp_path / "data.jsonl", vocab_size=VOCAB))
    assert refused.value.field == "data"


def test_data_that_leaves_nothing_to_train_or_score_on_is_refused(policy: TinyPolicy, tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    common = ("--model", str(policy.directory), "--data", str(path), "--to", str(tmp_path / "to"), "--device", "cpu")
    for lines, message in (
        ([line([1, 2, 3, 4, 5, 6])], "no prompts besides those held out"),
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


def test_an_interrupted_training_continues_to_the_same_drafter(
    policy: TinyPolicy, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "AT_ONCE", 8)
    monkeypatch.setattr(training, "SAVE_EVERY_S", 0.0)

    def run(name: str, stop_at: int = 99, **changes: Any) -> dict[str, Any]:
        reports = list[Progress]()

        def report(now: Progress) -> None:
            reports.append(now)
            if len(reports) == stop_at:
                raise KeyboardInterrupt

        options: dict[str, Any] = {"passes": 2, "epochs": 2, "seed": 0, "device": "cpu", "work": None, **changes}
        found = train_to(
            policy.directory, data, tmp_path / name, WantedDrafter(), say=lambda _: None, report=report, **options
        )
        assert reports[-1].tokens == reports[-1].total_tokens
        assert [now.score is not None for now in reports][-1]
        return found

    whole = run("whole")
    assert not (tmp_path / "whole.work").exists()
    for stop_at in (3, 2):
        with pytest.raises(KeyboardInterrupt):
            run("resumed", stop_at)
    with pytest.raises(ConfigError, match="was begun with another --seed; continue with the same, or remove it"):
        run("resumed", seed=1)
    resumed = run("resumed")
    assert resumed["accept_length"] == whole["accept_length"]
    assert [point[0] for point in resumed["curve"]] == [point[0] for point in whole["curve"]]
    one, other = (load_file(tmp_path / name / WEIGHTS_FILE) for name in ("whole", "resumed"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_damaged_course_is_refused(policy: TinyPolicy, data: Path, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "course.json").write_text("{")
    common = ("--model", policy.directory, "--data", data, "--device", "cpu", "--work", tmp_path / "work")
    with pytest.raises(ConfigError, match=r"--work: .* cannot be continued: .*; remove it"):
        tlt("train", *common, "--to", tmp_path / "to")


def test_a_score_at_a_temperature_is_that_of_divided_logits(policy: TinyPolicy) -> None:
    learner = Learner(policy.form, CPU)
    learner.share(policy.shared)
    pack = collate(frames_of(policy, 4, seed=1, tokens=32), CPU)
    warm = learner.tally(pack)
    cold = learner.tally(pack, temperature=0.5)
    learner.share(SharedWeights(embedding=policy.shared.embedding, head=policy.shared.head * 2))
    assert learner.tally(pack).accepted == pytest.approx(cold.accepted, rel=1e-3)
    assert cold.hits == warm.hits
    assert cold.accepted != warm.accepted
