"""
Runs one scene with one engine in its own process: `python -m tests.engine.host MODULE SCENE RESULT WORK`.

SGLang keeps its configuration in globals, so engines of different scenes must not share a process.
"""

import asyncio
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Coroutine, Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Scene = Callable[[Path], Coroutine[Any, Any, T]]

ROOT = Path(__file__).parents[2]
SCENE_S = 560.0


class Play(Protocol):
    """Runs a scene in its own process and returns its result."""

    def __call__(self, scene: Scene[T]) -> T: ...


def command(scene: Scene[T], result: Path, work: Path) -> list[str]:
    """Return the command line, for `ROOT`, that runs a scene in the folder `work` and writes its result."""
    return [sys.executable, "-m", "tests.engine.host", scene.__module__, scene.__name__, str(result), str(work)]


def environment() -> dict[str, str]:
    """Return the environment of a scene's process."""
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def play(
    scene: Scene[T], work: Path, variables: Mapping[str, str] = MappingProxyType({}), *, within_s: float = SCENE_S
) -> T:
    """Run a scene in the folder `work`, with environment variables, and return its result."""
    path = work / "result.pickle"
    done = subprocess.run(
        command(scene, path, work),
        cwd=ROOT,
        env={**environment(), **variables},
        timeout=within_s,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    result: T = pickle.loads(path.read_bytes())  # noqa: S301 - written by our own child
    return result


def main(module: str, name: str, path: str, work: str) -> None:
    """Run a scene in this process."""
    result = asyncio.run(getattr(import_module(module), name)(Path(work)))
    Path(path).write_bytes(pickle.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:5])
