"""`tlt drafter train` and `evaluate`: parse arguments, write files and JSON."""

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tlt_common.errors import ConfigError
from tlt_common.recorded_rollouts import RecordedRollout, RolloutFile
from tlt_common.whole_file import write_whole
from tlt_trainer.drafter.score import Score
from tlt_trainer.drafter.shared_weights import read_config
from tlt_trainer.lease.device import torch_device
from tlt_trainer.offline.beginning import Beginning, WantedDrafter, beginning, published
from tlt_trainer.offline.course import Progress
from tlt_trainer.offline.exporting import require_empty
from tlt_trainer.offline.training import SCORED_DRAFTS, OfflineTraining

DEVICES = ("auto", "cpu", "cuda")


def train_to(
    model: Path,
    data: Path,
    to: Path,
    wanted: WantedDrafter,
    *,
    work: Path | None,
    passes: int | None,
    epochs: int,
    seed: int,
    device: str,
    say: Callable[[str], None],
    report: Callable[[Progress], None],
) -> dict[str, Any]:
    """
    Train a drafter and write it; return its score and training curve.

    Args:
        model: Directory of the policy's checkpoint.
        data: File of rollouts.
        to: Directory to write, absent or empty.
        wanted: The initial drafter.
        work: Directory of states and checkpoints, removed at the end; None for one next to `to`.
        passes: Passes of an unrolled step; None for the default of the kind.
        epochs: Passes over the data.
        seed: Seed of the order.
        device: One of `DEVICES`.
        say: Called with a line about each stage.
        report: Called after every part of a pass over the data.

    Raises:
        ConfigError: An argument is invalid; the message names it and what is accepted.
        WeightsError: The policy's weights cannot be read, or a loss is not finite.
    """
    require_empty(to)
    target = read_config(model)
    begin = beginning(wanted, target)
    rollouts = list(RolloutFile(path=data, vocab_size=begin.form.vocab_size))
    work = work or to.with_name(f"{to.name}.work")
    asked = {
        "--model": fingerprint(json.dumps(target, sort_keys=True).encode()),
        "--data": fingerprint(data.read_bytes()),
        **{f"--{name}": value for name, value in (("epochs", epochs), ("seed", seed), ("passes", passes))},
        **{f"--{name.replace('begin', 'from')}": value for name, value in asdict(wanted).items()},
    }
    training = _training(model, begin, device, passes=passes)
    try:
        to.mkdir(parents=True, exist_ok=True)  # before hours of training
        _make_room(work, rollouts, begin)
        about_s = training.estimated_s(rollouts, epochs)
        say(f"{len(rollouts)} responses, {epochs} passes: about {about_s / 60:.0f} minutes of {device} time")
        say(f"interrupted, the same command continues from {work}")
        files, score, course = training.train(rollouts, work, asked, epochs=epochs, seed=seed, report=report)
        for name, content in files.items():
            write_whole(to / name, content)
        shutil.rmtree(work)
    except OSError as error:
        raise ConfigError(f"--to: {to} or {work} cannot be written: {error}", field="to") from error
    return described(score, training.coverage(rollouts)) | {"seconds": round(course.seconds), "curve": course.curve}


def fingerprint(content: bytes) -> str:
    """Return a fingerprint of the content."""
    return hashlib.sha256(content).hexdigest()


def _make_room(work: Path, rollouts: Sequence[RecordedRollout], begin: Beginning) -> None:
    """
    Raises:
        ConfigError: The disk lacks room for the states.
        OSError: The directory cannot be created.
    """
    work.mkdir(parents=True, exist_ok=True)
    state_bytes = 2 * begin.form.hidden_size * (1 + len(begin.form.layers))
    needed = state_bytes * sum(len(rollout.token_ids) for rollout in rollouts)
    if (free := shutil.disk_usage(work).free) < needed:
        raise ConfigError(
            f"--work: {work} has {free / 1e9:.1f} GB free; the states of {len(rollouts)} responses need "
            f"{needed / 1e9:.1f} GB",
            field="work",
        )


def evaluate(
    source: str, model: Path, data: Path, *, drafts: int, device: str, temperature: float = 1.0
) -> dict[str, Any]:
    """
    Score a drafter on all responses of a file, with chains of `drafts` drafts sampled at this temperature.

    Raises:
        ConfigError: An argument is invalid; the message names it and what is accepted.
        WeightsError: The policy's weights cannot be read.
    """
    _, drafter = published(source, read_config(model), "source")
    rollouts = list(RolloutFile(path=data, vocab_size=drafter.form.vocab_size))
    training = _training(model, drafter, device, drafts=drafts)
    return described(training.score(rollouts, temperature=temperature), training.coverage(rollouts))


def described(score: Score, coverage: float) -> dict[str, Any]:
    """
    Return a score as JSON-compatible types.

    It contains the shares of drafts that are the policy's most likely tokens and that are accepted when sampled, the
    accept length of a chain, and the share of the responses' tokens that can be drafted.
    """
    return {
        "top1": [round(hit, 4) for hit in score.hits],
        "accepted": [round(share, 4) for share in score.accepted],
        "accept_length": round(score.accept_length, 4),
        "coverage": round(coverage, 4),
    }


def _training(
    model: Path, begin: Beginning, device: str, *, passes: int | None = None, drafts: int = SCORED_DRAFTS
) -> OfflineTraining:
    """Load the policy, after all quick checks have passed."""
    if device not in DEVICES:
        raise ConfigError(f"--device is {device!r}; accepted: {', '.join(DEVICES)}", field="device")
    try:
        return OfflineTraining(model, begin, torch_device(device), passes=passes, drafts=drafts)
    except (OSError, ValueError, RuntimeError) as error:  # of transformers, or of a device that is not there
        raise ConfigError(f"--model: {model} cannot be loaded on {device}: {error}", field="model") from error
