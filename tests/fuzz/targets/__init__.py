"""One module per reader of input; each defines `TARGETS`."""

import importlib
import pkgutil

from tests.fuzz.target import Target


def discovered() -> list[Target]:
    """Return all targets, by name."""
    names = [module.name for module in pkgutil.iter_modules(__path__, f"{__name__}.")]
    found = [target for name in names for target in importlib.import_module(name).TARGETS]
    return sorted(found, key=lambda target: target.name)
