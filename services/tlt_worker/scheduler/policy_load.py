"""Loads the policy's weights: survives a failed load, merges adapters, and splits stacked experts."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from tlt_common.weights.experts import are_served_apart, parts_of
from tlt_worker.checkpoints.adapted import AdaptedCheckpoint


def report_failed_load(original: Callable[..., Any], self: Any, model_path: str, *args: Any, **kw: Any) -> Any:
    """
    Wrap the loading of weights from disk: report an error of SGLang's rollback instead of ending the process.

    The rollback reads the new files again and fails again if they are damaged. Generation stays paused until the worker
    has loaded the served weights.
    """
    served = self.model_config.model_path
    try:
        done, message = original(self, model_path, *args, **kw)
    except Exception as error:  # noqa: BLE001 - reported to the worker, which loads the served weights or ends the engine
        done, message = False, f"{type(error).__name__}: {error}"
    if not done:
        self.model_config.model_path = served
    return done, message


def read_policy(original: Callable[..., Any], self: Any, source: Any, *args: Any, **kw: Any) -> Any:
    """
    Wrap the reading of a checkpoint: split stacked experts for classes that would silently skip them, and merge an
    adapter into its base.

    The experts are views of the stack, so nothing is copied.
    """
    adapted = AdaptedCheckpoint.at(Path(source.model_or_path))
    if adapted is not None:
        source = replace(source, model_or_path=str(adapted.base))
    weights = original(self, source, *args, **kw)
    config = {} if source.model_config is None else source.model_config.hf_config.to_dict()
    if are_served_apart(config):
        weights = (part for name, tensor in weights for part in split(name, tensor))
    return weights if adapted is None else adapted.merged(weights, config)


def split(name: str, tensor: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield a stacked tensor's experts, or the tensor itself if it is not stacked."""
    parts = parts_of(name, tuple(tensor.shape))
    if not parts:
        yield name, tensor
        return
    (shape,) = set(parts.values())
    yield from zip(parts, tensor.reshape(len(parts), *shape), strict=True)
