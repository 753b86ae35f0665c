"""Tables of the page. Values from the run are HTML-escaped here."""

from collections.abc import Iterable, Mapping
from html import escape

from countdown.figures import Figure, figures
from countdown.record import Run
from countdown.report.facts import IN_BUBBLES, StepFacts, facts, mean_count, worker_seconds
from countdown.report.palette import STATES

DASH = "&ndash;"


def all_figures(run: Run) -> str:
    """Return every figure under its JSON name."""
    rows = [
        (f"<code>{escape(name)}</code>", f"{figure.value:.3f}", *_range(figure))
        for name, figure in figures(run).items()
    ]
    return _table(("figure", "value", "low", "high"), rows)


def ledger(run: Run) -> str:
    """Return worker-seconds by state, with and without lending."""
    lending, plain = (worker_seconds(run, lending=on) for on in (True, False))
    order = [*STATES, *sorted({*lending, *plain} - {*STATES})]
    rows = []
    for state in order:
        if state in lending or state in plain:
            swatch = f"<i class=swatch style='background:var(--{state})'></i>" if state in STATES else ""
            cells = [cell for seconds in (lending, plain) for cell in _seconds_and_share(seconds, state)]
            rows.append((f"{swatch}{escape(state)}", *cells))
    bubble = [
        cell
        for seconds in (lending, plain)
        for cell in _seconds_and_share({**seconds, "": sum(seconds.get(state, 0.0) for state in IN_BUBBLES)}, "")
    ]
    rows.append(("<b>without a request</b> (training, switching, idle)", *bubble))
    return _table(("state", "on and learning, s", "share", "off rollouts, s", "share"), rows)


def steps(run: Run) -> str:
    """Return one row per step."""
    numbers = ("numbers",) if run.has_mix else ()
    head = (
        "step", *numbers, "first", "rollout off, s", "on, s", "learn, s", "step speedup", "tail off, s", "on, s",
        "tail speedup", "identical", "accept length", "drafter", "reward off", "on", "idle used",
    )  # fmt: skip
    return _table(head, [_step(fact, has_mix=run.has_mix) for fact in facts(run)])


def pairs(values: Mapping[str, str]) -> str:
    """Return a table of names and values."""
    return _table((), [(escape(name), escape(value)) for name, value in values.items()])


def _range(figure: Figure) -> tuple[str, str]:
    if figure.low == figure.high:
        return "", ""
    return f"{figure.low:.3f}", f"{figure.high:.3f}"


def _step(fact: StepFacts, *, has_mix: bool) -> tuple[str, ...]:
    on, pairs = fact.step.side("on"), fact.step.pairs
    off = fact.step.side("off") if fact.step.is_compared else None
    return (
        str(fact.step.index),
        *((f"{mean_count(fact.step):.1f}",) if has_mix else ()),
        fact.step.rollouts[0].side,
        f"{off.seconds:.1f}" if off else DASH,
        f"{on.seconds:.1f}",
        f"{fact.step.learn_s:.1f}",
        f"{fact.step_speedup:.2f}" if fact.step_speedup else DASH,
        f"{off.tail_s:.1f}" if off else DASH,
        f"{on.tail_s:.1f}",
        f"{fact.tail_speedup:.2f}" if fact.tail_speedup else DASH,
        f"{pairs.identical}&nbsp;of&nbsp;{pairs.responses}" if pairs else DASH,
        f"{on.accept_length:.2f}",
        f"v{on.drafter_version}" if on.drafter_version else "none",
        f"{off.mean_reward:.3f}" if off else DASH,
        f"{on.mean_reward:.3f}",
        f"{fact.bubble_utilisation:.0%}",
    )


def _seconds_and_share(seconds: Mapping[str, float], state: str) -> tuple[str, str]:
    total = sum(spent_s for name, spent_s in seconds.items() if name)
    spent_s = seconds.get(state, 0.0)
    return f"{spent_s:.1f}", f"{spent_s / total:.1%}" if total else DASH


def _table(head: Iterable[str], rows: Iterable[tuple[str, ...]]) -> str:
    heading = "".join(f"<th scope=col>{cell}</th>" for cell in head)
    body = "".join(
        f"<tr><th scope=row>{first}</th>{''.join(f'<td>{cell}</td>' for cell in rest)}</tr>" for first, *rest in rows
    )
    top = f"<thead><tr>{heading}</tr></thead>" if heading else ""
    return f"<div class=wide><table>{top}<tbody>{body}</tbody></table></div>"
