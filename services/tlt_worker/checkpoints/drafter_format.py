"""The format of the drafters that an engine is configured for, determined before weights are read."""

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
    Check the files of an engine's drafter, if any, without reading tensors.

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
    """Return the format in which an engine serves drafters published in format `form`."""
    return form.reduced(engine.draft_vocabulary or DRAFT_VOCABULARY, ranks=engine.tensor_parallel)


def new_format(engine: EngineConfig, model: Mapping[str, Any]) -> DrafterFormat:
    """
    Return the format of drafters if no drafter is given: `engine.drafter_format`, otherwise the default.

    Raises:
        ConfigError: The target lacks the layers that drafters would read, or the format does not fit the target.
    """
    if engine.drafter_format is not None:
        return _format_at(engine, engine.drafter_format, model)
    kind = engine.drafter_architecture or DrafterArchitecture.EAGLE
    try:
        made = standard_format(kind, model, draft_vocabulary=engine.draft_vocabulary, layers=engine.drafter_layers)
        return served_format(made, engine)
    except WeightsError as error:
        raise ConfigError(
            f"engine.drafter_layers: {error.message}; set engine.drafter_layers", field="engine.drafter_layers"
        ) from error


def _format_at(engine: EngineConfig, directory: Path, model: Mapping[str, Any]) -> DrafterFormat:
    try:
        form = format_of(read_config(directory), model)
    except (ConfigError, WeightsError) as error:
        raise ConfigError(f"engine.drafter_format: {error.message}", field="engine.drafter_format") from error
    require_configured(engine, directory, form)
    return served_format(form, engine)


def require_configured(engine: EngineConfig, directory: Path, form: DrafterFormat) -> None:
    """
    Raises:
        ConfigError: The drafter at `directory` differs from the configured architecture or layers.
    """
    for name, wanted, found in (
        ("drafter_architecture", engine.drafter_architecture, form.architecture),
        ("drafter_layers", engine.drafter_layers, form.layers),
    ):
        if wanted is not None and wanted != found:
            shown = [str(value) if isinstance(value, DrafterArchitecture) else list(value) for value in (wanted, found)]
            raise ConfigError(
                f"engine.{name} is {shown[0]}; that of the drafter at {directory} is {shown[1]}", field=f"engine.{name}"
            )
