"""One step with and without TLT on one time axis: each worker's states until the last response."""

from typing import Final

from countdown.record import Run, Step
from countdown.report.facts import facts
from countdown.report.timeline import document_in
from tlt_coordinator.http.embedded import canvas, swatch

NAMES: Final = {"on": "With TLT", "off": "Without"}
SHOWN: Final = ("rollout", "training", "switching", "resting", "idle")


def typical(run: Run) -> Step | None:
    """Return the compared step with the median speedup, or None if no step was compared."""
    compared = sorted((fact for fact in facts(run) if fact.step.is_compared), key=lambda fact: fact.step_speedup or 0.0)
    return compared[len(compared) // 2].step if compared else None


def both_sides(run: Run, step: Step) -> str:
    """Return the timelines of both sides, one above the other, in seconds since each rollout began."""
    longest_s = max(rollout.seconds for rollout in step.rollouts)
    keys = "".join(f"<span>{swatch(state)}{state}</span>" for state in SHOWN)
    sides = "".join(
        f"<h3>{NAMES[rollout.side]}: {rollout.seconds:.0f} s</h3>"
        + canvas(
            f"side-{rollout.side}",
            f"Step {step.index}, {NAMES[rollout.side].lower()}: {rollout.seconds:.0f} s",
            document_in(run, (rollout.began_unix_s, rollout.began_unix_s + rollout.seconds)),
            {"origin": rollout.began_unix_s, "to": rollout.began_unix_s + longest_s},
        )
        for rollout in sorted(step.rollouts, key=lambda rollout: list(NAMES).index(rollout.side))
    )
    return f"{sides}<p class=keys>{keys}</p>"
