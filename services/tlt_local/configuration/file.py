"""The file of `tlt up --config`, merged with command-line options."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from tlt_common.config.loader import load
from tlt_common.errors import ConfigError
from tlt_common.redaction import redacted
from tlt_local.addresses import PORT
from tlt_local.configuration.config import StackConfig, StackOptions
from tlt_local.configuration.settings import SERVICES, settings_of
from tlt_local.models.published import checkpoint_of


class UpFile(StackOptions):
    """Keys of `tlt up --config FILE`: options of the run, and a section per service."""

    model: Path | None = None
    """Directory of a Hugging Face checkpoint, or the name of one that `tlt models get` fetched."""
    port: int = PORT
    """Port of the rollout endpoint; the coordinator and its status page use the next two. 0: any three free ports."""
    gateway: dict[str, Any] = Field(default_factory=dict)
    """Keys of `tlt config explain gateway`."""
    worker: dict[str, Any] = Field(default_factory=dict)
    """Keys of `tlt config explain worker`."""
    cache: dict[str, Any] = Field(default_factory=dict)
    """Keys of `tlt config explain cache`."""
    trainer: dict[str, Any] = Field(default_factory=dict)
    """Keys of `tlt config explain trainer`."""
    tuner: dict[str, Any] = Field(default_factory=dict)
    """Keys of `tlt config explain tuner`."""
    coordinator: dict[str, Any] = Field(default_factory=dict)
    """Keys of `tlt config explain coordinator`."""


def stack_config(file: Path | None, options: Mapping[str, Any], settings: Sequence[str]) -> StackConfig:
    """
    Configure a run from defaults, the file, and command-line options that are not None, in rising precedence.

    Raises:
        ConfigError: A key is unknown, its value is invalid, or no model is given; the message says what is accepted.
    """
    if redacted(given_redis := str(options.get("redis") or "")) != given_redis:
        raise ConfigError(
            "--redis contains a password, and every user of this machine can read command lines; accepted: the "
            "key redis in the file of --config",
            field="redis",
        )
    read = load(UpFile, "up", file=file, environment={}, settings=())
    run = read.model_dump(exclude=set(SERVICES))
    given = {**run, **{key: value for key, value in options.items() if value is not None}}
    if given["model"] is None:
        raise ConfigError("no model; give --model DIR, or `model` in the file of --config", field="model")
    given["model"] = checkpoint_of(given["model"])
    sections = {name: getattr(read, name) for name in SERVICES}
    return StackConfig(**given, settings=settings_of(sections, settings))
