"""Client of a Prometheus server's query API."""

import json
import math
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One time series: its labels and its (time, value) points."""

    labels: Mapping[str, str]
    points: Sequence[tuple[float, float]]

    @property
    def has_numbers(self) -> bool:
        """Whether any value is finite; quantiles of an empty histogram are NaN."""
        return any(math.isfinite(value) for _, value in self.points)


class Prometheus:
    """Client of the server at http://host:port. Calls block."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def at(self, expr: str, time_s: float) -> list[Series]:
        """Evaluate `expr` at one time."""
        found = self._get("query", query=expr, time=f"{time_s:.3f}")
        return [Series(labels=one["metric"], points=[_point(one["value"])]) for one in found]

    def over(self, expr: str, begin_s: float, end_s: float, step_s: float) -> list[Series]:
        """Evaluate `expr` at every step of a time range."""
        found = self._get("query_range", query=expr, start=f"{begin_s:.3f}", end=f"{end_s:.3f}", step=f"{step_s:g}")
        return [Series(labels=one["metric"], points=[*map(_point, one["values"])]) for one in found]

    def _get(self, endpoint: str, **parameters: str) -> Any:
        url = f"{self._url}/api/v1/{endpoint}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:  # noqa: S310 - the caller's own server
            return json.load(response)["data"]["result"]


def _point(pair: Sequence[Any]) -> tuple[float, float]:
    return float(pair[0]), float(pair[1])
