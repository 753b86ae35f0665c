"""What is accepted of other services. Each refusal names the field by its path in the message. Pure."""

from collections.abc import Callable, Mapping
from math import inf
from typing import Any, TypeAlias

from tlt_common.domain.bounds import COUNTED_MAX, MAX_NAME, require_count, require_name, require_range
from tlt_common.domain.ids import DrafterVersion, Epoch
from tlt_common.errors import InvalidRequestError

Convert: TypeAlias = Callable[[Any], Any]
Rule: TypeAlias = Callable[[str, Any], Any]
"""Takes a field's path and what was received; returns what that stands for, or refuses it."""


def _checking(require: Callable[..., None], **limits: float) -> Rule:
    def rule(path: str, value: Any) -> Any:
        require(path, value, **limits)
        return value

    return rule


def ranged(low: float, high: float) -> Rule:
    """Accept finite numbers in [low, high]."""
    return _checking(require_range, low=low, high=high)


def named(least: int = 0, most: int = MAX_NAME) -> Rule:
    """Accept printable text of so many characters."""
    return _checking(require_name, least=least, most=most)


def entries(most: int) -> Rule:
    """Accept so many values of a repeated field."""
    return _checking(lambda path, values: require_count(path, len(values), most=most))


def taken(change: Convert) -> Rule:
    """Accept everything, as what a function makes of it."""
    return lambda _, value: change(value)


def _natural(path: str, value: float) -> float:
    if not 0 <= value < inf:  # so that NaN fails
        raise InvalidRequestError(f"{path} is {value}; accepted: a finite number of at least 0", field=path)
    return value


CHECKS: Mapping[Any, Rule] = {
    int: _natural,
    DrafterVersion: ranged(0, COUNTED_MAX),
    Epoch: ranged(0, COUNTED_MAX),
    float: _natural,
    str: named(),
}
"""What the fields of `checked` messages accept, by type."""
