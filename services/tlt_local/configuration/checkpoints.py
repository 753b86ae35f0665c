"""Checks the model and drafter of a run by their files before anything starts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tlt_common.config.loader import nested
from tlt_common.drafter.format import require_fit
from tlt_common.errors import ConfigError, WeightsError
from tlt_worker.checkpoints.drafter_files import checked_format
from tlt_worker.checkpoints.drafter_format import drafter_format
from tlt_worker.checkpoints.model_config import read_config
from tlt_worker.checkpoints.own_head import with_architecture
from tlt_worker.engine.device import CPU, detect, gpu_memory
from tlt_worker.engine.planning import plan_of
from tlt_worker.engine_config import EngineConfig
from tlt_worker.model.files import require_model


def check_checkpoints(model: Path, drafter: str, worker: Mapping[str, Any], gpus_each: int) -> None:
    """
    Check that engines with these worker settings support the model and the drafter, and that both fit into memory.

    Args:
        model: Directory of the model.
        drafter: Path or URL of the drafter; empty for none. URLs are read by the workers, which have the clients for
            them.
        worker: Keys of `WorkerConfig`, nested or dotted.
        gpus_each: GPUs per worker; 0 runs engines on the CPU.

    Raises:
        ConfigError: The files are incomplete or not supported, or memory is too small; the message says why and what is
            accepted.
    """
    if not model.is_dir():
        raise ConfigError(f"--model: {model} is not a directory; accepted: a Hugging Face checkpoint", field="model")
    settings = nested(worker)
    engine = EngineConfig.model_validate(settings.get("engine", {}))
    require_model(model, engine)
    engine = with_architecture(engine, model)
    target = read_config(model)
    if drafter and "://" not in drafter:
        _check_drafter(Path(drafter), engine, target)
    device = detect() if gpus_each else CPU
    if device.kind == "cpu" or len(set(gpu_memory())) == 1:  # of different ones, each worker knows its own
        trains = settings.get("trainer", {}).get("enabled", True)
        plan_of(engine, device, target, drafter=drafter_format(engine, target), trains=trains)


def _check_drafter(drafter: Path, engine: EngineConfig, target: Mapping[str, Any]) -> None:
    running = drafter_format(engine, target)
    try:
        found = checked_format(drafter, target)
        if found.architecture is running.architecture:
            require_fit(running, found)
    except WeightsError as error:
        needed = f"--set worker.engine.drafter_format={drafter} makes engines and trainers run its format"
        raise ConfigError(f"--drafter: {error.message}; {needed}", field="drafter") from error
    if found.architecture is not running.architecture:
        needed = f"--set worker.engine.drafter_architecture={found.architecture}"
        raise ConfigError(f"--drafter: {drafter} is an {found.architecture} drafter; give {needed}", field="drafter")
