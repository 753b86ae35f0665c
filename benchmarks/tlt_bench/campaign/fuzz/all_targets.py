"""Finds the targets."""

import importlib
import pkgutil

from tlt_bench.campaign.fuzz import targets as package
from tlt_bench.campaign.fuzz.target import Target
from tlt_common.errors import ConfigError


def discovered() -> tuple[Target, ...]:
    """Return all targets, by name."""
    found: list[Target] = []
    for module in pkgutil.iter_modules(package.__path__):
        found += importlib.import_module(f"{package.__name__}.{module.name}").TARGETS
    return tuple(sorted(found, key=lambda target: target.name))


def named(name: str) -> Target:
    """
    Return the target of that name.

    Raises:
        ConfigError: There is none.
    """
    known = {target.name: target for target in discovered()}
    if name not in known:
        raise ConfigError(f"unknown target {name!r}; accepted: {', '.join(known)}", field="part")
    return known[name]
