"""The format of the drafters an engine is configured for, before their weights are read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.format import DrafterFormat
from tlt_common.drafter.reading import format_of, standard_format
from tlt_common.drafter.sizes import DRAFT_VOCABULARY
from tlt_common.errors import ConfigError, WeightsError
from tlt_worker.checkpoints.drafter_files import checked_format
from tlt_worker.checkpoints.model_config import read_config
from tlt_worker.engine_config import EngineConfig


def drafter_format(engine: EngineConfig, model: Mapping[str, Any]) -> DrafterFormat:
    """
    Return the format of an engine's drafters.

    Args:
        engine: The engine's configuration.
        model: The target's `config.json`.

    Raises:
        ConfigError: The drafter at `engine.drafter` does not fit, or the target has other layers.
    """
    if engine.drafter is not None:
        try:
            return served_format(format_of(read_config(engine.drafter), model), engine)
        except (ConfigError, WeightsError) as error:
            raise ConfigError(f"engine.drafter: {error.message}", field="engine.drafter") from error
    return new_format(engine, model)


def require_drafter(engine: EngineConfig, model: Path) -> None:
    """
    Check the files of an engine's drafter, if it has one. Reads no tensor.

    Raises:
        ConfigError: They are incomplete, or do not fit the model.
    """
    if engine.drafter is None:
        return
    try:
        checked_format(engine.drafter, read_config(model))
    except WeightsError as error:
        raise ConfigError(f"engine.drafter: {error.message}", field="engine.drafter") from error


def served_format(form: DrafterFormat, engine: EngineConfig) -> DrafterFormat:
    """Return the format with which an engine serves drafters that are published in format `form`."""
    return form.reduced(engine.draft_vocabulary or DRAFT_VOCABULARY, ranks=engine.tensor_parallel)


def new_format(engine: EngineConfig, model: Mapping[str, Any]) -> DrafterFormat:
    """
    Return the format of drafters where none is given.

    Raises:
        ConfigError: The target does not have the layers they would read.
    """
    kind = engine.drafter_architecture or DrafterArchitecture.EAGLE
    try:
        made = standard_format(kind, model, draft_vocabulary=engine.draft_vocabulary, layers=engine.drafter_layers)
        return served_format(made, engine)
    except WeightsError as error:
        raise ConfigError(
            f"engine.drafter_layers: {error.message}; set engine.drafter_layers", field="engine.drafter_layers"
        ) from error
