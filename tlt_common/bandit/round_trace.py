"""
Trace format of rounds: one JSON object per line, after a header line.

    {"format": "tlt-rounds/1", "model": "served", "device": "cpu"}
    {"at_s": 1.52, "arm": "chain-7", "batch": 2, "accepted": [7, 3], "drafted": 14, "elapsed_s": 0.031, "drafter": 1,
     "policy": 0}

The header may contain further fields. `accepted` is a list with one number per request, or their sum. `drafted`,
`drafter` and `policy` are optional; they default to as many as the arm drafts, 0 and 0.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tlt_common.documents import json_of
from tlt_common.domain.arm import Arm, arm_named
from tlt_common.domain.ids import DrafterVersion
from tlt_common.errors import ConfigError

FORMAT: Final = "tlt-rounds/1"
_END_OF_TIME_S = 1e12
FIELDS: Final = ("at_s", "arm", "batch", "accepted", "drafted", "elapsed_s", "drafter", "policy")


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRound:
    """One decoding round of an engine."""

    at_s: float
    """Time at which it ended, on a monotonic clock."""
    arm: Arm
    accepted: tuple[int, ...]
    """Accepted draft tokens per request, without the bonus token."""
    elapsed_s: float
    drafted: int
    """Draft tokens verified, over all requests."""
    drafter: DrafterVersion = DrafterVersion(0)
    policy: int = 0
    """Number of weight changes since the engine started."""

    @property
    def batch(self) -> int:
        """Number of running requests."""
        return len(self.accepted)


def header(**about: str) -> str:
    """Return the header line."""
    return json.dumps({"format": FORMAT, **about})


def line_of(played: TracedRound) -> str:
    """Return the line of a round."""
    fields = {
        "at_s": round(played.at_s, 6),
        "arm": played.arm.name,
        "batch": played.batch,
        "accepted": played.accepted,
        "drafted": played.drafted,
        "elapsed_s": round(played.elapsed_s, 7),
        "drafter": played.drafter,
        "policy": played.policy,
    }
    return json.dumps(fields, separators=(",", ":"))


def parsed_header(where: str, line: str) -> Mapping[str, Any]:
    """
    Parse the header line.

    Raises:
        ConfigError: The line is not a header; the message names `where`.
    """
    fields = _object(where, line)
    if fields.get("format") != FORMAT:
        raise ConfigError(
            f"{where}: format is {fields.get('format')!r}; accepted: {FORMAT!r}, as an engine writes it "
            "(`tlt config explain worker`, trace)",
            field="format",
        )
    return fields


def parsed(where: str, line: str) -> TracedRound:
    """
    Parse the line of a round.

    Raises:
        ConfigError: The line is not a round; the message names `where`, the field, and what is accepted.
    """
    fields = _object(where, line)
    if unknown := sorted(fields.keys() - set(FIELDS)):
        raise ConfigError(f"{where}: unknown field {unknown[0]!r}; accepted: {', '.join(FIELDS)}", field=unknown[0])
    try:
        arm = arm_named(str(fields.get("arm")))
    except ValueError as error:
        raise ConfigError(f"{where}: arm: {error}", field="arm") from error
    batch = _integer(where, fields, "batch", minimum=1)
    accepted = _accepted(where, fields.get("accepted"), batch, arm)
    return TracedRound(
        at_s=_seconds(where, fields, "at_s"),
        arm=arm,
        accepted=accepted,
        drafted=_integer(where, fields, "drafted", minimum=sum(accepted), otherwise=arm.drafted_tokens * batch),
        elapsed_s=_seconds(where, fields, "elapsed_s", above=True),
        drafter=DrafterVersion(_integer(where, fields, "drafter", otherwise=0)),
        policy=_integer(where, fields, "policy", otherwise=0),
    )


def _object(where: str, line: str) -> dict[str, Any]:
    try:
        fields = json_of(line)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}; accepted: one JSON object per line", field="trace") from error
    if not isinstance(fields, dict):
        raise ConfigError(f"{where}: a {type(fields).__name__}; accepted: one JSON object per line", field="trace")
    return fields


def _refused(where: str, field: str, value: object, accepted: str) -> ConfigError:
    problem = "is missing" if value is None else f"is {value!r}"
    return ConfigError(f"{where}: {field} {problem}; accepted: {accepted}", field=field)


def _integer(
    where: str, fields: Mapping[str, Any], name: str, *, minimum: int = 0, otherwise: int | None = None
) -> int:
    value = fields.get(name, otherwise)
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise _refused(where, name, value, f"an integer of at least {minimum}")
    return value


def _seconds(where: str, fields: Mapping[str, Any], name: str, *, above: bool = False) -> float:
    value = fields.get(name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # Bounded, since an integer can be too large for a float.
    if is_number and value is not None and 0 <= value < _END_OF_TIME_S and (value > 0 or not above):
        return float(value)
    raise _refused(where, name, value, f"seconds, {'above' if above else 'at least'} 0")


def _accepted(where: str, value: object, batch: int, arm: Arm) -> tuple[int, ...]:
    max_accepted = arm.steps
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= max_accepted * batch:
        each, more = divmod(value, batch)
        return (each + 1,) * more + (each,) * (batch - more)
    if (
        isinstance(value, list)
        and len(value) == batch
        and all(type(n) is int and 0 <= n <= max_accepted for n in value)
    ):
        return tuple(value)
    raise _refused(
        where, "accepted", value, f"a list of {batch} numbers from 0 to {max_accepted}, one per request, or their sum"
    )
