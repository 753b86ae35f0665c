"""Cost models in files: JSON objects with the format `tlt-costs/2`."""

import json
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from tlt_common.documents import json_of
from tlt_common.errors import ConfigError
from tlt_simulator.costs.model import CostModel

FORMAT: Final = "tlt-costs/2"


def save(costs: CostModel, path: Path) -> None:
    """
    Write a cost model.

    Raises:
        ConfigError: The file cannot be written.
    """
    text = json.dumps({"format": FORMAT, **costs.model_dump(mode="json")}, indent=1)
    try:
        path.write_text(text + "\n")
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}", field="costs") from error


def load(path: Path) -> CostModel:
    """
    Read a cost model.

    Raises:
        ConfigError: The file cannot be read or is not a cost model; the message names the field and what is accepted.
    """
    accepted = f"a cost model with the format {FORMAT!r}, as `tlt simulate fit` writes it"
    try:
        values = json_of(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} is not readable: {error}; accepted: {accepted}", field="costs") from error
    if not isinstance(values, dict) or values.pop("format", None) != FORMAT:
        raise ConfigError(f"{path} has another format; accepted: {accepted}", field="costs")
    try:
        return CostModel.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise ConfigError(f"{path}: {field}: {first['msg']}; accepted: {accepted}", field=field) from error
