"""Parses `--over` into all combinations of key values."""

from collections.abc import Mapping, Sequence
from itertools import product

from tlt_common.errors import ConfigError
from tlt_simulator.scenario import Scenario
from tlt_simulator.sweep.keys import changed, own_name

MAX_COMBINATIONS = 10_000

Changes = Mapping[str, str]
"""Values as text, by key."""


def grid(options: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """
    Return the values of each key in options KEY=V1,V2 .... Values with commas are bracketed: [off,chain-3] or
    {"8":32,"16":16}.

    Raises:
        ConfigError: An option has another form, or a key or a value is repeated.
    """
    found = dict[str, tuple[str, ...]]()
    for text in options:
        given, equals, listed = text.partition("=")
        key = own_name(given)
        values = tuple(_values(listed))
        if not (given and equals and values and all(values)):
            raise ConfigError(f"--over {text}: accepted: KEY=VALUE1,VALUE2,...", field="over")
        if key in found:
            raise ConfigError(f"--over {given} is repeated; accepted: all values of a key in one option", field="over")
        if twice := [value for place, value in enumerate(values) if value in values[:place]]:
            raise ConfigError(f"--over {given} has {twice[0]} twice; accepted: each value once", field="over")
        found[key] = values
    return found


def combinations(over: Mapping[str, Sequence[str]]) -> tuple[dict[str, str], ...]:
    """
    Return all combinations of values. The last key changes fastest.

    Raises:
        ConfigError: There are too many combinations.
    """
    count = 1
    for values in over.values():
        count *= len(values)
    if count > MAX_COMBINATIONS:
        raise ConfigError(f"--over makes {count:,} combinations; accepted: at most {MAX_COMBINATIONS:,}", field="over")
    return tuple(dict(zip(over, values, strict=True)) for values in product(*over.values()))


def scenarios(base: Scenario, all_changes: Sequence[Changes]) -> tuple[Scenario, ...]:
    """
    Return the scenario of each combination, so that an invalid value is refused before anything runs.

    Raises:
        ConfigError: A key is unknown, or a value is not accepted.
    """
    return tuple(changed(base, changes, option="--over") for changes in all_changes)


def _values(listed: str) -> list[str]:
    values, depth = [""], 0
    for letter in listed:
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and not depth:
            values.append("")
        else:
            values[-1] += letter
    return [_without_brackets(value.strip()) for value in values]


def _without_brackets(value: str) -> str:
    """Remove the brackets of a list of names, which configurations accept with commas. JSON is unchanged."""
    inside = value[1:-1]
    return inside if value.startswith("[") and value.endswith("]") and '"' not in inside and inside else value
