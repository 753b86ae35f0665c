"""Target layers that a drafter reads."""

from collections.abc import Mapping
from typing import Any

from tlt_common.errors import WeightsError


def require_layers(layers: tuple[int, ...], target: Mapping[str, Any], *, least: int = 1) -> None:
    """
    Raises:
        WeightsError: The target lacks these layers, they are fewer than `least`, or they are out of order.
    """
    last = int(target["num_hidden_layers"]) - 2  # SGLang captures the input of a layer, and no layer follows the last
    if len(layers) < least:
        count = "one layer" if least == 1 else "two layers"
        raise WeightsError(f"the drafter reads layers {list(layers)} of its target; accepted: at least {count}")
    if list(layers) != sorted(set(layers)) or layers[0] < 0 or layers[-1] > last:
        raise WeightsError(f"the drafter reads layers {list(layers)}; accepted: ascending numbers from 0 to {last}")


def standard_layers(target: Mapping[str, Any]) -> tuple[int, ...]:
    """
    Return the layers that SGLang and EAGLE-3's code use by default: the inputs of layers 2, L/2 and L-3.

    Raises:
        WeightsError: The target has too few layers to choose from.
    """
    count = int(target["num_hidden_layers"])
    layers = (1, count // 2 - 1, count - 4)
    if not layers[0] < layers[1] < layers[2]:
        raise WeightsError(f"the target has only {count} layers; accepted: a drafter that names the layers it reads")
    return layers
