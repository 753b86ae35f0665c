"""Summary printed at the end of the demo."""

from pathlib import Path

from countdown.figures import Figure, figures
from countdown.record import Run
from countdown.report.words import training


def last_screen(run: Run, report: Path) -> str:
    """
    Return a line each for the speedup, what was served, the responses compared, the source of the speedup, and the
    path of the report.
    """
    found = figures(run)
    lines = (
        _gained(run, found),
        run.subject.premises,
        _responses(run, found),
        _source(run, found),
        f"Report: {report}",
    )
    return "\n".join(line for line in lines if line)


def _gained(run: Run, found: dict[str, Figure]) -> str:
    if "step_speedup" not in found:
        return "No step began with a drafter, so no steps were compared; give the run more time."
    step, tail = found["step_speedup"], found["tail_speedup"]
    steps, tails = found["step_speedup_total"], found["tail_speedup_total"]
    return (
        f"Training steps ran {step.value:.2f}x as fast as without TLT ({step.low:.2f}-{step.high:.2f} over "
        f"{len(run.compared)} compared steps; {steps.value:.2f}x in total), and their tails {tail.value:.2f}x "
        f"({tail.low:.2f}-{tail.high:.2f}, {tails.value:.2f}x in total)."
    )


def _responses(run: Run, found: dict[str, Figure]) -> str:
    if "reward_on" not in found:
        return "Rewards were not compared."
    on, off = (_interval(found[f"reward_{side}"]) for side in ("on", "off"))
    if (share := found.get("identical_responses")) is None:
        return f"The two sides are independent samples: mean reward {on} with TLT, {off} without."
    count = sum(step.pairs.responses for step in run.compared if step.pairs)
    if share.value == 1.0:
        return f"All {count} responses are identical token for token with and without TLT; mean reward {on}."
    return (
        f"{share.value:.1%} of {count} responses are identical token for token with and without TLT; the others "
        f"differ due to rounding (see the report); mean reward {on} with TLT, {off} without."
    )


def _interval(figure: Figure) -> str:
    return f"{figure.value:.3f} (95 % interval {figure.low:.3f}-{figure.high:.3f})"


def _source(run: Run, found: dict[str, Figure]) -> str:
    cold = found.get("accept_length_cold")
    last = found.get("accept_length_last") or cold
    grown = f"from {cold.value:.2f} to {last.value:.2f}" if cold and last else "by an unknown number of"
    return f"Accept length changed {grown} tokens per round.{_adapted(found)} {training(run)}"


def _adapted(found: dict[str, Figure]) -> str:
    if (ratio := found.get("adapted_over_frozen")) is None:
        return ""
    frozen, adapted = found["accept_length_frozen"].value, found["accept_length_adapted"].value
    return (
        f" On fresh prompts, the drafter at the start yields {frozen:.2f} and the newest {adapted:.2f} "
        f"({ratio.value:.3f} times as many; 95 % interval {ratio.low:.3f}-{ratio.high:.3f})."
    )
