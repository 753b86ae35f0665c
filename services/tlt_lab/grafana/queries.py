"""PromQL, spelled the same way everywhere: of one release in one namespace, summed over replicas that may restart."""

SELECT = 'namespace=~"$namespace", release=~"$release"'
"""Both are put on every target by the chart's monitors; elsewhere they may be missing, and All matches that."""
WINDOW = "$__rate_interval"
RANGE = "$__range"


def of(metric: str, *matchers: str) -> str:
    """Select a metric."""
    return f"{metric}{{{', '.join([SELECT, *matchers])}}}"


def rate(counter: str, *matchers: str, by: str = "") -> str:
    """Added per second, summed."""
    return f"{_sum(by)} (rate({of(counter, *matchers)}[{WINDOW}]))"


def total(counter: str, *matchers: str, by: str = "") -> str:
    """Added over the time range that is shown, summed."""
    return f"{_sum(by)} (increase({of(counter, *matchers)}[{RANGE}]))"


def events(counter: str, *matchers: str) -> str:
    """Count what happened in the time range that is shown; Prometheus estimates between two scrapes, hence round."""
    return or_zero(f"round({total(counter, *matchers)})")


def recent(counter: str, *matchers: str, by: str) -> str:
    """Count what happened in the last ten minutes: rare things would hardly show as a rate."""
    return or_zero(f"round({_sum(by)} (increase({of(counter, *matchers)}[10m])))")


def or_zero(expression: str) -> str:
    """Zero where nothing was counted yet: a panel about failures that is empty would look broken."""
    return f"{expression} or on() vector(0)"


def quantile(share: float, histogram: str, *matchers: str, by: str = "") -> str:
    """Estimate a quantile of what was observed lately."""
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, {rate(f'{histogram}_bucket', *matchers, by=labels)})"


def mean(histogram: str, *matchers: str, by: str = "") -> str:
    """Mean of what was observed lately."""
    return f"{rate(f'{histogram}_sum', *matchers, by=by)} / {rate(f'{histogram}_count', *matchers, by=by)}"


def _sum(by: str) -> str:
    return f"sum by ({by})" if by else "sum"
