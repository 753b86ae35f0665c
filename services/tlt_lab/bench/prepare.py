"""What benches run on: model, drafter and device."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tlt_common.errors import ConfigError, TltError
from tlt_lab.demo.run import deepened
from tlt_worker.engine.device import detect

DRAFTER = Path(__file__).parent.parent / "demo" / "drafter"
"""The drafter of the shipped policy; `tlt demo make-drafter` makes one like it."""

SIMULATED_ACCEPT_LENGTH = 3.0
"""Of models without a trained drafter on a GPU: what the TLT paper's drafters reach on average, roughly."""

DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a bench asks for."""

    device: str = "auto"
    model: Path | None = None
    drafter: Path | None = None

    def __post_init__(self) -> None:
        """
        Check what a user gave.

        Raises:
            ConfigError: Model or drafter without the other, no checkpoint, or no such device here.
        """
        if (self.model is None) != (self.drafter is None):
            raise ConfigError("--model and --drafter belong together; give both or neither", field="drafter")
        for name, path in (("model", self.model), ("drafter", self.drafter)):
            if path is not None and not (path / "config.json").is_file():
                raise ConfigError(f"--{name}: {path} has no config.json; accepted: a checkpoint's folder", field=name)
        if self.device not in DEVICES:
            raise ConfigError(f"--device is {self.device!r}; accepted: {list(DEVICES)}", field="device")
        if self.device == "cuda" and detect().kind != "cuda":
            raise ConfigError("--device: no CUDA device is here; accepted: auto, cpu", field="device")

    @property
    def kind(self) -> str:
        """Where engines run: cpu or cuda."""
        return "cpu" if self.device == "cpu" else detect().kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What engines are started with."""

    model: str
    drafter: str
    variables: dict[str, str]
    """Environment of engines."""
    simulated_accept_length: float = 0.0


async def prepared(ground: Ground, scratch: Path) -> Prepared:
    """
    Make what was not given: the demo's policy, deepened, or on a GPU random weights of 7B shape.

    Raises:
        TltError: It could not be written.
    """
    variables = {"CUDA_VISIBLE_DEVICES": ""} if ground.device == "cpu" else {}
    if ground.model is not None and ground.drafter is not None:
        return Prepared(model=str(ground.model), drafter=str(ground.drafter), variables=variables)
    if ground.device != "cuda":
        await deepened(scratch / "model")
        return Prepared(model=str(scratch / "model"), drafter=str(DRAFTER), variables=variables)
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "tlt_lab.bench.random_model", str(scratch))
    if await process.wait():
        raise TltError(f"random weights could not be written to {scratch}")
    return Prepared(
        model=str(scratch / "model"),
        drafter=str(scratch / "drafter"),
        variables=variables,
        simulated_accept_length=SIMULATED_ACCEPT_LENGTH,
    )


def check_parts(asked: Sequence[str], accepted: Sequence[str]) -> tuple[str, ...]:
    """
    Return the parts of a bench that were asked for.

    Raises:
        ConfigError: One does not exist.
    """
    if unknown := [part for part in asked if part not in accepted]:
        raise ConfigError(f"--part: no part is called {unknown[0]!r}; accepted: {list(accepted)}", field="part")
    return tuple(asked)
