"""Values formatted as Grafana formats them."""

STEPS = {
    "s": ((60, 1, "s"), (3600, 60, "min"), (86400, 3600, "h"), (float("inf"), 86400, "d")),
    "bytes": ((2**10, 1, "B"), (2**20, 2**10, "KiB"), (2**30, 2**20, "MiB"), (float("inf"), 2**30, "GiB")),
    "short": ((1e3, 1, ""), (1e6, 1e3, "K"), (1e9, 1e6, "Mil"), (float("inf"), 1e9, "Bil")),
}


def format_value(value: float, unit: str) -> str:
    """Format a value in a Grafana unit, to about three digits."""
    if unit in STEPS:
        if unit == "s" and 0 < abs(value) < 1:
            return f"{1000 * value:.3g} ms"
        _, size, name = next(step for step in STEPS[unit] if abs(value) < step[0])
        return f"{value / size:.3g} {name}".strip()
    match unit:
        case "percentunit":
            return f"{100 * value:.3g}%"
        case "currencyUSD":
            return f"${value:.3g}"
        case "bool_on_off":
            return "On" if value else "Off"
        case "x":
            return f"{value:.3g}x"
        case "cpm":
            return f"{value:.3g} cpm"
        case _:
            return f"{value:.4g}" if abs(value) < 10_000 else f"{value:.0f}"
