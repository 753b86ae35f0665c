"""The last screen of the demo."""

from pathlib import Path

from tlt_lab.demo.figures import Figure, figures
from tlt_lab.demo.record import Run


def last_screen(run: Run, report: Path) -> str:
    """Three lines: what was gained, what it came from, where the report is."""
    found = figures(run)
    return "\n".join((_gained(found), _source(found), f"Report: {report}"))


def _gained(found: dict[str, Figure]) -> str:
    if "step_speedup" not in found:
        return "No step had a drafter yet, so there is nothing to compare: let it run for more steps."
    step, tail = found["step_speedup"], found["tail_speedup"]
    steps, tails = found["step_speedup_total"], found["tail_speedup_total"]
    return (
        f"Step {step.median:.2f}x as fast as without TLT ({step.least:.2f}-{step.most:.2f}; all together "
        f"{steps.median:.2f}x), its tail {tail.median:.2f}x ({tail.least:.2f}-{tail.most:.2f}; {tails.median:.2f}x)."
    )


def _source(found: dict[str, Figure]) -> str:
    accept = found.get("accept_length_last") or found.get("accept_length_cold")
    cold = found.get("accept_length_cold")
    grown = f"{cold.median:.2f} to {accept.median:.2f}" if cold and accept else "unknown"
    used = found["bubble_utilisation"].median if "bubble_utilisation" in found else 0.0
    rewards = [found[name].median for name in ("reward_on", "reward_off") if name in found]
    same = f"; rewards {rewards[0]:.2f} with it, {rewards[1]:.2f} without" if len(rewards) == 2 else ""
    return f"Tokens per round went from {grown}, by training on {used:.0%} of the idle worker time{same}."
