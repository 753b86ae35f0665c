"""Model, drafter and device of a benchmark."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from countdown.deepening import deepened
from countdown.model import CHECKPOINT
from countdown.settings import DRAFTER
from tlt_bench.engines.commands import StartEngine
from tlt_bench.shapes import DRAFTER as RANDOM_DRAFTER
from tlt_bench.shapes import MODEL
from tlt_bench.tasks import Task, task_of
from tlt_common.errors import ConfigError, TltError
from tlt_local.models.published import MODELS, SMOLLM2, checkpoint_of
from tlt_worker.capacity.profile import Accelerator
from tlt_worker.engine.device import CPU, detect
from tlt_worker.engine_config import EngineConfig
from tlt_worker.experiment import NONE, Experiment
from word_problems.settings import DRAFTER as SMOLLM2_DRAFTER

SIMULATED_ACCEPT_LENGTH = 3.0
"""Simulated for a GPU model without a trained drafter: roughly the average of the TLT paper's drafters."""

RANDOM = "7b"
"""The model of a GPU without one of its own."""

MAX_RUNNING = 32
"""Maximum number of requests that a benchmark's engine decodes at once."""

DEVICES = ("auto", "cpu", "cuda")

SHALLOW = Path("demo-shallow")
"""Name of the demo's policy as it was trained, with four layers: a drafter of one costs much of such a round."""

NO_DRAFTER = Path("none")

SHIPPED: Final = {SMOLLM2.name: SMOLLM2_DRAFTER}
"""Drafters of fetched models, by their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchTarget:
    """Device, model and drafter of a benchmark, as chosen by the user."""

    device: str = "auto"
    model: Path | None = None
    """Directory of a checkpoint, name of a fetched model, or `SHALLOW`."""
    drafter: Path | None = None
    """Directory of a drafter, or `NO_DRAFTER`. None uses the one shipped for the model."""
    accept_length: float | None = None
    """Simulated accept length in tokens, for weights whose drafts are never accepted; None for real acceptance."""

    def __post_init__(self) -> None:
        """
        Validate the options.

        Raises:
            ConfigError: Only one of model and drafter is given, a path is not a checkpoint, a model has not been
                fetched, or the device is unavailable.
        """
        if self.model is None and self.drafter not in {None, NO_DRAFTER}:
            raise ConfigError("--drafter: --model and --drafter must be given together", field="drafter")
        if self.model not in {None, SHALLOW} and self.drafter is None and self._shipped is None:
            raise ConfigError(
                "--drafter: --model and --drafter must be given together; accepted for --drafter: a directory, or none",
                field="drafter",
            )
        for name, path in (("model", self.checkpoint), ("drafter", self.served_drafter)):
            if path is not None and not (path / "config.json").is_file():
                raise ConfigError(
                    f"--{name}: {path} has no config.json; accepted: the directory of a checkpoint", field=name
                )
        if self.device not in DEVICES:
            raise ConfigError(f"--device is {self.device!r}; accepted: {list(DEVICES)}", field="device")
        if self.device == "cuda" and detect().kind != "cuda":
            raise ConfigError("--device: no CUDA device available; accepted: auto, cpu", field="device")
        if self.accept_length is not None and not self.accept_length >= 1:
            raise ConfigError(
                f"--accept-length is {self.accept_length}; accepted: 1 or more tokens per round", field="accept_length"
            )

    @property
    def checkpoint(self) -> Path | None:
        """
        Directory of the model; None if it has yet to be written.

        Raises:
            ConfigError: The model has not been fetched.
        """
        if self.model == SHALLOW:
            return CHECKPOINT
        return None if self.model is None else checkpoint_of(self.model)

    @property
    def served_drafter(self) -> Path | None:
        """Directory of the drafter; None if there is none or it has yet to be written."""
        if self.drafter is not None:
            return None if self.drafter == NO_DRAFTER else self.drafter
        return DRAFTER if self.model in {None, SHALLOW} else self._shipped

    @property
    def _shipped(self) -> Path | None:
        """The drafter shipped for a fetched model."""
        return next(
            (SHIPPED[one.name] for one in MODELS.values() if self.model in {Path(one.name), one.directory}), None
        )

    def require_drafter(self, what: str) -> None:
        """
        Check that there is a drafter.

        Raises:
            ConfigError: There is none.
        """
        if self.drafter == NO_DRAFTER:
            raise ConfigError(f"--drafter is none, but {what} needs one; accepted: its directory", field="drafter")

    @property
    def kind(self) -> str:
        """Device kind on which engines run: cpu or cuda."""
        return self.accelerator.kind

    @property
    def accelerator(self) -> Accelerator:
        """Properties of the device for the engines' profile."""
        return CPU.accelerator if self.device == "cpu" else detect().accelerator

    @property
    def experiment(self) -> Experiment:
        """Differences of its engines from those of services."""
        return NONE if self.accept_length is None else Experiment(simulated_accept_length=self.accept_length)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Inputs for starting engines."""

    model: Path
    drafter: Path | None
    variables: dict[str, str]
    """Environment variables of engines."""
    on_gpu: bool = False
    """Limits the KV cache, which would otherwise take the whole GPU that several engines share."""
    experiment: Experiment = NONE

    @property
    def task(self) -> Task:
        """The task for the model."""
        return task_of(self.model)

    def start(
        self, arms: tuple[str, ...], *, context_length: int, with_drafter: bool = True, trace: Path | None = None
    ) -> StartEngine:
        """Return the command that starts an engine with these arms."""
        engine = EngineConfig(
            drafter=self.drafter if with_drafter else None,
            arms=arms,
            max_running=MAX_RUNNING,
            context_length=context_length,
            max_total_tokens=2 * MAX_RUNNING * context_length if self.on_gpu else None,
            trace=trace,
        )
        return StartEngine(model=self.model, engine=engine, experiment=self.experiment)


async def prepared(target: BenchTarget, scratch: Path) -> Prepared:
    """
    Create missing inputs: the demo's policy with added layers, or on a GPU random weights of 7B shape.

    Raises:
        TltError: The files cannot be written.
    """
    if (checkpoint := target.checkpoint) is not None:
        return _prepared(target, checkpoint, target.served_drafter)
    if target.device != "cuda":
        await deepened(scratch / "model")
        return _prepared(target, scratch / "model", target.served_drafter)
    command = (sys.executable, "-m", "tlt_bench.random_models", str(scratch), RANDOM)
    process = await asyncio.create_subprocess_exec(*command)
    if await process.wait():
        raise TltError(f"random weights cannot be written to {scratch}")
    timed = replace(target, accept_length=target.accept_length or SIMULATED_ACCEPT_LENGTH)
    drafter = None if target.drafter == NO_DRAFTER else scratch / RANDOM / RANDOM_DRAFTER
    return _prepared(timed, scratch / RANDOM / MODEL, drafter)


def _prepared(target: BenchTarget, model: Path, drafter: Path | None) -> Prepared:
    return Prepared(
        model=model,
        drafter=drafter,
        variables={"CUDA_VISIBLE_DEVICES": ""} if target.device == "cpu" else {},
        on_gpu=target.kind == "cuda",
        experiment=target.experiment,
    )


def check_parts(requested: Sequence[str], accepted: Sequence[str]) -> tuple[str, ...]:
    """
    Return the requested parts of a benchmark.

    Raises:
        ConfigError: A part is unknown.
    """
    if unknown := [part for part in requested if part not in accepted]:
        raise ConfigError(f"--part: unknown part {unknown[0]!r}; accepted: {list(accepted)}", field="part")
    return tuple(requested)
