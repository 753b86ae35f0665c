"""Finds the parts of the campaign."""

import importlib
import pkgutil
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.util import find_spec

import tlt_bench.campaign as package
from tlt_bench.campaign.part import Part
from tlt_bench.engines.prepare import check_parts


@cache
def discovered() -> tuple[Part, ...]:
    """Return all parts, the one with the largest share of time first."""
    packages = [
        module.name for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.") if module.ispkg
    ]
    found = [f"{name}.part" for name in packages if find_spec(f"{name}.part")]
    parts: list[Part] = [importlib.import_module(name).PART for name in found]
    return tuple(sorted(parts, key=lambda part: (-part.weight, part.name)))


def chosen(names: Sequence[str] | None) -> tuple[Part, ...]:
    """
    Return the parts of these names; all parts if there are none.

    Raises:
        ConfigError: A name is unknown.
    """
    known = {part.name: part for part in discovered()}
    wanted = set(check_parts(names or tuple(known), tuple(known)))
    return tuple(part for name, part in known.items() if name in wanted)


def share_s(part: Part, later: Iterable[Part], left_s: float) -> float:
    """Return the seconds of a part, given the parts that run after it and the seconds left for all of them."""
    return max(0.0, left_s) * part.weight / (part.weight + sum(other.weight for other in later))
