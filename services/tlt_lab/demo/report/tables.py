"""The tables of the page. Cells that come from the run are escaped here."""

from collections.abc import Iterable, Mapping
from html import escape

from tlt_lab.demo.figures import Figure, figures
from tlt_lab.demo.record import Run
from tlt_lab.demo.report.facts import IN_BUBBLES, StepFacts, facts, mean_count, worker_seconds
from tlt_lab.demo.report.palette import STATES


def all_figures(run: Run) -> str:
    """Every figure under the name it has in JSON."""
    rows = [
        (f"<code>{escape(name)}</code>", f"{figure.median:.3f}", *_range(figure))
        for name, figure in figures(run).items()
    ]
    return _table(("figure", "median", "least", "most"), rows)


def ledger(run: Run) -> str:
    """Worker-seconds by state, with lending and without."""
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
    """Every step in a row."""
    head = (
        "step", "numbers", "first", "rollout off, s", "on, s", "learn, s", "step &divide;", "tail off, s", "on, s",
        "tail &divide;", "accept", "drafter", "reward off", "on", "bubble used",
    )  # fmt: skip
    return _table(head, [_step(fact) for fact in facts(run)])


def pairs(values: Mapping[str, str]) -> str:
    """Names and values."""
    return _table((), [(escape(name), escape(value)) for name, value in values.items()])


def _range(figure: Figure) -> tuple[str, str]:
    if figure.least == figure.most:
        return "", ""
    return f"{figure.least:.3f}", f"{figure.most:.3f}"


def _step(fact: StepFacts) -> tuple[str, ...]:
    on, off = fact.step.side("on"), fact.step.side("off")
    return (
        str(fact.step.index),
        f"{mean_count(fact.step):.1f}",
        fact.step.rollouts[0].side,
        f"{off.seconds:.1f}",
        f"{on.seconds:.1f}",
        f"{fact.step.learn_s:.1f}",
        f"{fact.step_speedup:.2f}",
        f"{off.tail_s:.1f}",
        f"{on.tail_s:.1f}",
        f"{fact.tail_speedup:.2f}",
        f"{on.accept_length:.2f}",
        f"v{on.drafter_version}" if on.drafter_version else "none",
        f"{off.mean_reward:.3f}",
        f"{on.mean_reward:.3f}",
        f"{fact.bubble_utilisation:.0%}",
    )


def _seconds_and_share(seconds: Mapping[str, float], state: str) -> tuple[str, str]:
    total = sum(spent_s for name, spent_s in seconds.items() if name)
    spent_s = seconds.get(state, 0.0)
    return f"{spent_s:.1f}", f"{spent_s / total:.1%}" if total else "&ndash;"


def _table(head: Iterable[str], rows: Iterable[tuple[str, ...]]) -> str:
    heading = "".join(f"<th scope=col>{cell}</th>" for cell in head)
    body = "".join(
        f"<tr><th scope=row>{first}</th>{''.join(f'<td>{cell}</td>' for cell in rest)}</tr>" for first, *rest in rows
    )
    top = f"<thead><tr>{heading}</tr></thead>" if heading else ""
    return f"<div class=wide><table>{top}<tbody>{body}</tbody></table></div>"
