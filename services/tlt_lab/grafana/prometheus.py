"""Answers of a Prometheus server, as a dashboard would show them."""

import json
import math
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ANSWER_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line: its labels and its (time, value) points."""

    labels: Mapping[str, str]
    points: Sequence[tuple[float, float]]

    @property
    def has_numbers(self) -> bool:
        """Whether there is anything to see; quantiles of nothing are NaN."""
        return any(math.isfinite(value) for _, value in self.points)


class Prometheus:
    """A server at http://host:port. Blocks."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def at(self, expr: str, time_s: float) -> list[Series]:
        """Evaluate at one time."""
        found = self._ask("query", query=expr, time=f"{time_s:.3f}")
        return [Series(labels=one["metric"], points=[_point(one["value"])]) for one in found]

    def over(self, expr: str, begin_s: float, end_s: float, step_s: float) -> list[Series]:
        """Evaluate again and again over a time range."""
        found = self._ask("query_range", query=expr, start=f"{begin_s:.3f}", end=f"{end_s:.3f}", step=f"{step_s:g}")
        return [Series(labels=one["metric"], points=[*map(_point, one["values"])]) for one in found]

    def _ask(self, what: str, **parameters: str) -> Any:
        url = f"{self._url}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=ANSWER_S) as response:  # noqa: S310 - the caller's own server
            return json.load(response)["data"]["result"]


def _point(pair: Sequence[Any]) -> tuple[float, float]:
    return float(pair[0]), float(pair[1])
