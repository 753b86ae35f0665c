"""Progress of a benchmark on stderr: one line per stage and step."""

import typer

from countdown.events import Event, StepDone
from countdown.run import Observer


class ProgressLog(Observer):
    """Writes plain lines to stderr."""

    def on_stage(self, text: str) -> None:
        typer.echo(text, err=True)

    def on_event(self, event: Event) -> None:
        if isinstance(event, StepDone):
            rollouts = " ".join(
                f"{one.side} reward {one.mean_reward:.3f} in {one.seconds:.0f} s" for one in event.step.rollouts
            )
            typer.echo(f"  step {event.step.index}: {rollouts}", err=True)
