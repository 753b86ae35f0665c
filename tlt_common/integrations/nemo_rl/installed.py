"""Puts the suite in the place of NeMo-RL's class for vLLM."""

from importlib import import_module

from tlt_common.errors import ConfigError
from tlt_common.integrations.nemo_rl.generation import TltGeneration
from tlt_common.integrations.nemo_rl.weights import create_weight_synchronizer

REPLACED = {"VllmGeneration": TltGeneration, "create_weight_synchronizer": create_weight_synchronizer}
"""What `setup` of NeMo-RL's algorithms takes from its module."""


def install(algorithm: str = "nemo_rl.algorithms.grpo") -> None:
    """
    Make an algorithm of NeMo-RL generate with the suite. Call it before its `setup`, in the same process.

    Args:
        algorithm: Module with a `setup` that creates VllmGeneration and its weight synchronizer.

    Raises:
        ConfigError: The module does not use what would be replaced, so that replacing it would have no effect.
    """
    module = import_module(algorithm)
    for name in REPLACED:
        if not hasattr(module, name):
            raise ConfigError(
                f"{algorithm} has no {name}; accepted: an algorithm whose setup creates it, such as "
                "nemo_rl.algorithms.grpo of the version that this module was written for",
                field="algorithm",
            )
    for name, replacement in REPLACED.items():
        setattr(module, name, replacement)
