"""Distributions of response lengths, and their command-line syntax. Pure."""

from collections.abc import Callable, Mapping
from math import exp, log, sqrt
from statistics import NormalDist
from typing import Self

from pydantic import Field, ValidationError, model_validator

from tlt_common.config.base import Frozen
from tlt_common.errors import ConfigError
from tlt_simulator.traces.values import MAX_TOKENS

Z90, Z99 = NormalDist().inv_cdf(0.9), NormalDist().inv_cdf(0.99)
OF_PROMPT, OF_EPOCH, OF_CHANCE = 0.6, 0.1, 0.5
"""How the logarithm spreads unless it is given: as the lengths of a reasoning model do."""
MAX_SPREAD = 5.0


class LengthSpec(Frozen):
    """
    Lengths around a level of the prompt. Some responses, such as repetitive ones, continue until the cap.

    The logarithm of a length is normally distributed around the median's. With `p90` and `p99`, it is transformed
    piecewise linearly so that these are the quantiles, not counting endless responses: below the median as between
    median and `p90`, and above `p99` as below it.
    """

    median: float = Field(ge=1, le=MAX_TOKENS)
    """Median length in tokens."""
    prompt_spread: float = Field(OF_PROMPT, ge=0, le=MAX_SPREAD)
    """Standard deviation of the logarithm between prompts."""
    epoch_spread: float = Field(OF_EPOCH, ge=0, le=MAX_SPREAD)
    """The same between epochs of a prompt."""
    chance_spread: float = Field(OF_CHANCE, ge=0, le=MAX_SPREAD)
    """The same between the responses of one epoch."""
    p90: float | None = Field(None, ge=1, le=MAX_TOKENS)
    """
    Tokens that one response in ten exceeds; null derives it from the spreads. If set, the spreads only determine the
    similarity of a prompt's responses.
    """
    p99: float | None = Field(None, ge=1, le=MAX_TOKENS)
    """Tokens that one response in a hundred exceeds; set if and only if `p90` is."""
    endless: float = Field(0.0, ge=0, le=1)
    """Share of responses that never end by themselves."""
    drift: float = Field(0.0, ge=-1, le=1)
    """Growth of the logarithm per step."""
    cap: int = Field(32_768, ge=1, le=MAX_TOKENS)
    """Maximum tokens of a response."""
    prompt_tokens: int = Field(512, ge=1, le=MAX_TOKENS)
    """Tokens of each prompt."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if (self.p90 is None) is not (self.p99 is None):
            raise ValueError("p90 and p99 must be given together")
        if self.p90 is not None and self.p99 is not None:
            if not self.median < self.p90 <= self.p99:
                raise ValueError(f"p50 {self.median:g}, p90 {self.p90:g} and p99 {self.p99:g} must rise")
            if self.spread == 0.0:
                raise ValueError("the spreads must not all be 0 with p90 and p99: lengths would be the median")
        if self.median > self.cap:
            raise ValueError(f"the median, {self.median:g}, must be at most the cap, {self.cap}")
        return self

    @property
    def spread(self) -> float:
        """Standard deviation of the logarithm between all responses of a step."""
        return sqrt(self.prompt_spread**2 + self.epoch_spread**2 + self.chance_spread**2)

    def tokens(self, deviation: float) -> float:
        """Return the uncapped length at this distance from the median: in the logarithm, before the transformation."""
        if self.p90 is None or self.p99 is None:
            return self.median * exp(deviation)
        z, rise = deviation / self.spread, log(self.p90 / self.median) / Z90
        if z <= Z90:
            return self.median * exp(rise * z)
        return self.p90 * exp((z - Z90) * log(self.p99 / self.p90) / (Z99 - Z90))


def parsed_lengths(text: str) -> LengthSpec:
    """
    Parse KIND:KEY=VALUE,…: `lognormal:median=5000,p99=30000,cap=32768` or `quantiles:p50=5000,p90=15000,p99=30000`.

    Raises:
        ConfigError: The text is invalid; the message names the key and what is accepted.
    """
    kind, colon, rest = text.partition(":")
    if kind not in KINDS or not colon:
        raise ConfigError(
            f"lengths: {kind[:40]!r} is not a distribution; accepted: "
            "lognormal:median=TOKENS,p99=TOKENS,cap=TOKENS or quantiles:p50=TOKENS,p90=TOKENS,p99=TOKENS,cap=TOKENS",
            field="lengths",
        )
    needed, optional, made = KINDS[kind]
    values = _values(kind, rest, (*needed, *optional))
    for key in needed:
        if key not in values:
            raise ConfigError(f"lengths: {key} is missing; accepted: {kind}:{'=…,'.join(needed)}=…", field="lengths")
    try:
        return made(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        key = "".join(str(part) for part in first["loc"])
        problem = first["msg"].removeprefix("Value error, ")
        raise ConfigError(f"lengths: {key + ': ' if key else ''}{problem}", field="lengths") from None


def _values(kind: str, text: str, known: tuple[str, ...]) -> dict[str, float]:
    values = dict[str, float]()
    for part in text.split(","):
        key, _, number = (one.strip() for one in part.partition("="))
        accepted = f"{kind}: with any of {', '.join(known)}"
        if key not in known:
            raise ConfigError(f"lengths: {key[:40]!r} is not a key; accepted: {accepted}", field="lengths")
        if key in values:
            raise ConfigError(f"lengths: {key} appears twice; accepted: {accepted}, each once", field="lengths")
        try:
            values[key] = float(number)
        except ValueError:
            raise ConfigError(f"lengths: {key} is {number[:40]!r}; accepted: a number", field="lengths") from None
    return values


def _lognormal(values: Mapping[str, float]) -> LengthSpec:
    """Return a log-normal distribution. `p99` scales all spreads alike, and `spread` is the overall one."""
    rest = {key: value for key, value in values.items() if key not in {"p99", "spread"}}
    spec = LengthSpec.model_validate(rest)
    if "p99" not in values and "spread" not in values:
        return spec
    if "p99" in values and "spread" in values:
        raise ConfigError("lengths: p99 and spread say the same; accepted: one of them", field="lengths")
    if "p99" in values and not spec.median < values["p99"] <= MAX_TOKENS:
        accepted = f"more than the median, {spec.median:g}, and at most {MAX_TOKENS}"
        raise ConfigError(f"lengths: p99 is {values['p99']:g}; accepted: {accepted}", field="lengths")
    wanted = values["spread"] if "spread" in values else log(values["p99"] / spec.median) / Z99
    if spec.spread == 0.0:
        raise ConfigError("lengths: all spreads are 0; accepted: one that is not, with p99 or spread", field="lengths")
    by = wanted / spec.spread
    spreads = {key: getattr(spec, key) * by for key in ("prompt_spread", "epoch_spread", "chance_spread")}
    return LengthSpec.model_validate(rest | spreads)


def _quantiles(values: Mapping[str, float]) -> LengthSpec:
    return LengthSpec.model_validate({"median" if key == "p50" else key: value for key, value in values.items()})


_COMMON = ("prompt_spread", "epoch_spread", "chance_spread", "endless", "drift", "cap", "prompt_tokens")
KINDS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...], Callable[[Mapping[str, float]], LengthSpec]]] = {
    "lognormal": (("median",), ("p99", "spread", *_COMMON), _lognormal),
    "quantiles": (("p50", "p90", "p99"), _COMMON, _quantiles),
}
"""By name: the keys that are needed, those that may be given, and what makes a distribution of them."""
