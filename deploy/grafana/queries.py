"""PromQL building blocks: restricted to a namespace and a release, summed over replicas, safe across restarts."""

SELECT = 'namespace=~"$namespace", release=~"$release"'
"""The chart's PodMonitors add both labels to every target; elsewhere they may be missing, which `All` matches too."""
WINDOW = "$__rate_interval"
RANGE = "$__range"


def of(metric: str, *matchers: str) -> str:
    """Return the selector of a metric."""
    return f"{metric}{{{', '.join([SELECT, *matchers])}}}"


def rate(counter: str, *matchers: str, by: str = "") -> str:
    """Return the sum of the per-second rate."""
    return f"{_sum(by)} (rate({of(counter, *matchers)}[{WINDOW}]))"


def total(counter: str, *matchers: str, by: str = "") -> str:
    """Return the sum of the increase over the selected time range."""
    return f"{_sum(by)} (increase({of(counter, *matchers)}[{RANGE}]))"


def events(counter: str, *matchers: str) -> str:
    """Return the number of events in the selected time range, rounded: Prometheus extrapolates between scrapes."""
    return or_zero(f"round({total(counter, *matchers)})")


def recent(counter: str, *matchers: str, by: str) -> str:
    """Return the number of events in the last ten minutes; rare events are hardly visible as a rate."""
    return or_zero(f"round({_sum(by)} (increase({of(counter, *matchers)}[10m])))")


def or_zero(expression: str) -> str:
    """Return zero where nothing has been counted yet: an empty panel about failures would look broken."""
    return f"{expression} or on() vector(0)"


def quantile(share: float, histogram: str, *matchers: str, by: str = "") -> str:
    """Return an estimated quantile of recent observations."""
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, {rate(f'{histogram}_bucket', *matchers, by=labels)})"


def mean(histogram: str, *matchers: str, by: str = "") -> str:
    """Return the mean of recent observations."""
    return f"{rate(f'{histogram}_sum', *matchers, by=by)} / {rate(f'{histogram}_count', *matchers, by=by)}"


def _sum(by: str) -> str:
    return f"sum by ({by})" if by else "sum"
