"""`tlt drafter train` and `evaluate`: arguments in, files and JSON out."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tlt_common.errors import ConfigError
from tlt_common.recorded_rollouts import RolloutFile
from tlt_common.whole_file import write_whole
from tlt_trainer.drafter.score import Score
from tlt_trainer.drafter.shared_weights import read_config
from tlt_trainer.lease.device import torch_device
from tlt_trainer.offline.beginning import Beginning, WantedDrafter, beginning, published
from tlt_trainer.offline.exporting import require_empty
from tlt_trainer.offline.training import SCORED_DRAFTS, Epoch, OfflineTraining

DEVICES = ("auto", "cpu", "cuda")


def train_to(
    model: Path,
    data: Path,
    to: Path,
    wanted: WantedDrafter,
    *,
    passes: int | None,
    epochs: int,
    seed: int,
    device: str,
    report: Callable[[Epoch], None],
) -> dict[str, Any]:
    """
    Train a drafter and write it; return its score.

    Args:
        model: Directory of the policy's checkpoint.
        data: File of rollouts.
        to: Directory to write, absent or empty.
        wanted: Which drafter to begin with.
        passes: Passes of an unrolled step; None: as many as the kind is trained with.
        epochs: Passes over the data.
        seed: Seed of the order.
        device: One of `DEVICES`.
        report: Called after every pass.

    Raises:
        ConfigError: An argument is invalid; the message names it and what is accepted.
        WeightsError: The policy's weights cannot be read, or a loss is not finite.
    """
    require_empty(to)
    begin = beginning(wanted, read_config(model))
    rollouts = list(RolloutFile(path=data, vocab_size=begin.form.vocab_size))
    training = _training(model, begin, device, passes=passes)
    try:
        to.mkdir(parents=True, exist_ok=True)  # before hours of training
        files, score = training.train(rollouts, epochs=epochs, seed=seed, report=report)
        for name, content in files.items():
            write_whole(to / name, content)
    except OSError as error:
        raise ConfigError(f"--to: {to} cannot be written: {error}", field="to") from error
    return described(score, training.coverage(rollouts))


def evaluate(source: str, model: Path, data: Path, *, drafts: int, device: str) -> dict[str, Any]:
    """
    Score a drafter on all responses of a file, with chains of `drafts` drafts.

    Raises:
        ConfigError: An argument is invalid; the message names it and what is accepted.
        WeightsError: The policy's weights cannot be read.
    """
    _, drafter = published(source, read_config(model), "source")
    rollouts = list(RolloutFile(path=data, vocab_size=drafter.form.vocab_size))
    training = _training(model, drafter, device, drafts=drafts)
    return described(training.score(rollouts), training.coverage(rollouts))


def described(score: Score, coverage: float) -> dict[str, Any]:
    """
    Return a score as JSON.

    That is: shares of drafts that are the policy's most likely tokens, and that are accepted at temperature 1; what a
    chain yields; and the share of the responses' tokens that can be drafted.
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
    """Load the policy, after everything that is quick was checked."""
    if device not in DEVICES:
        raise ConfigError(f"--device is {device!r}; accepted: {', '.join(DEVICES)}", field="device")
    try:
        return OfflineTraining(model, begin, torch_device(device), passes=passes, drafts=drafts)
    except (OSError, ValueError, RuntimeError) as error:  # of transformers, or of a device that is not there
        raise ConfigError(f"--model: {model} cannot be loaded on {device}: {error}", field="model") from error
