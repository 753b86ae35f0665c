"""`tlt drafter train` and `evaluate`: arguments in, files and JSON out."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from tlt_common.drafter.format import DrafterFormat
from tlt_common.errors import ConfigError, WeightsError
from tlt_common.whole_file import write_whole
from tlt_trainer.device import torch_device
from tlt_trainer.drafter.exporting import find_drafter, require_empty
from tlt_trainer.drafter.files import from_files
from tlt_trainer.offline.rollouts import read_rollouts
from tlt_trainer.offline.training import Epoch, OfflineTraining
from tlt_trainer.score import Score
from tlt_trainer.shared_weights import read_format

DEVICES = ("auto", "cpu", "cuda")


def train_to(
    model: Path,
    data: Path,
    to: Path,
    *,
    begin: str,
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
        begin: Drafter to begin from, as path or URL; empty: from scratch.
        epochs: Passes over the data.
        seed: Seed of the order.
        device: One of `DEVICES`.
        report: Called after every pass.

    Raises:
        ConfigError: An argument is invalid; the message names it and what is accepted.
        WeightsError: The policy's weights cannot be read, or a loss is not finite.
    """
    require_empty(to)
    form = read_format(model)
    rollouts = read_rollouts(data, vocab_size=form.vocab_size)
    training = _training(model, form, device, begin, "--from")
    try:
        to.mkdir(parents=True, exist_ok=True)  # before hours of training
        files, score = training.train(rollouts, epochs=epochs, seed=seed, report=report)
        for name, content in files.items():
            write_whole(to / name, content)
    except OSError as error:
        raise ConfigError(f"--to: {to} cannot be written: {error}", field="to") from error
    return described(score)


def evaluate(source: str, model: Path, data: Path, *, device: str) -> dict[str, Any]:
    """
    Score a drafter on all responses of a file.

    Raises:
        ConfigError: An argument is invalid; the message names it and what is accepted.
        WeightsError: The policy's weights cannot be read.
    """
    form = read_format(model)
    rollouts = read_rollouts(data, vocab_size=form.vocab_size)
    return described(_training(model, form, device, source, "source").score(rollouts))


def described(score: Score) -> dict[str, Any]:
    """Return a score as JSON: shares of drafts that are the policy's most likely tokens, and what a chain yields."""
    return {
        "top1": [round(hit, 4) for hit in score.hits],
        "accepted": [round(share, 4) for share in score.accepted],
        "accept_length": round(score.accept_length, 4),
    }


def _training(model: Path, form: DrafterFormat, device: str, begin: str, option: str) -> OfflineTraining:
    """Load the policy and, if given, a drafter to begin from. Everything that is quick is checked first."""
    if device not in DEVICES:
        raise ConfigError(f"--device is {device!r}; accepted: {', '.join(DEVICES)}", field="device")
    weights: Mapping[str, Tensor] | None = None
    if begin:
        uri, files = find_drafter(begin)
        try:
            weights = from_files(files, form)
        except WeightsError as error:
            raise ConfigError(f"{option}: {uri}: {error.message}", field="source") from error
    try:
        training = OfflineTraining(model, form, torch_device(device))
    except (OSError, ValueError, RuntimeError) as error:  # of transformers, or of a device that is not there
        raise ConfigError(f"--model: {model} cannot be loaded on {device}: {error}", field="model") from error
    if weights is not None:
        training.begin_from(weights)
    return training
