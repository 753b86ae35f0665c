"""Implementation of `tlt simulate fit`, with its heavy imports."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tlt_common.errors import ConfigError
from tlt_simulator.cli.output import STANDARD_OUTPUT, require_directory, write_json
from tlt_simulator.costs import files
from tlt_simulator.costs.model import CostModel
from tlt_simulator.costs.roofline import calculated
from tlt_simulator.fit.extrapolation import extrapolations
from tlt_simulator.fit.fitting import UNKNOWN, fit_journal
from tlt_simulator.fit.held_out import held_out as held_out_of
from tlt_simulator.fit.shown import fitted_lines, fitted_values, held_out_lines, held_out_values
from tlt_simulator.scenario import RlTrainer, RolloutFleet, Scenario, SuiteKeys
from tlt_simulator.sweep.keys import changed, parted


def fit(
    directory: Path,
    *,
    card: str | None,
    model: str | None,
    gpus_per_worker: int,
    held_out: bool,
    settings: Sequence[str],
    save: Path | None,
    json_to: str,
    seed: int,
) -> None:
    """
    Fit the journals in a directory; print and write the result.

    Raises:
        ConfigError: An option is not accepted, a journal is not valid or too short, or a file cannot be written.
    """
    if json_to and json_to != STANDARD_OUTPUT:
        require_directory(Path(json_to), "--json")
    if save is not None:
        require_directory(save, "--save")
    base = _base(card, model, gpus_per_worker)
    values: dict[str, Any]
    if settings and not held_out:
        raise ConfigError("--set: accepted: with --held-out", field="set")
    if held_out:
        predicted = held_out_of(directory, suite=_suite(settings), base=base, seed=seed)
        fitted, values, lines = predicted.fitted, held_out_values(predicted), list(held_out_lines(predicted))
    else:
        fitted = fit_journal(directory, base=base, seed=seed)
        outside = extrapolations(fitted.scenario("journal"), fitted.trace)
        values, lines = fitted_values(fitted, outside), list(fitted_lines(fitted, outside))
    if save is not None:
        files.save(fitted.costs, save)
    if json_to:
        write_json(values, json_to)
    if json_to != STANDARD_OUTPUT:
        print("\n".join(lines))


def _suite(settings: Sequence[str]) -> SuiteKeys:
    """Return the configuration of a recorded run."""
    fleet, trainer = RolloutFleet(workers=1), RlTrainer(learn_s=UNKNOWN.update_s)
    return changed(Scenario(name="journal", fleet=fleet, trainer=trainer, costs=UNKNOWN), parted(settings)).suite


def _base(card: str | None, model: str | None, gpus: int) -> CostModel | None:
    if card is None and model is None:
        return None
    if card is None or model is None:
        missing = "card" if card is None else "model"
        raise ConfigError(f"--{missing} is required; accepted: both --card and --model, or neither", field=missing)
    if gpus < 1:
        raise ConfigError(f"--gpus-per-worker is {gpus}; accepted: at least 1", field="gpus_per_worker")
    return calculated(card, model, gpus)
