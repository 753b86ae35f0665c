"""What a bench says of itself while it runs: a line to stderr whenever a stage begins."""

import typer

from tlt_lab.demo.events import Event, StepDone
from tlt_lab.demo.run import Watcher


class Talk(Watcher):
    """Plain lines."""

    def say(self, text: str) -> None:
        typer.echo(text, err=True)

    def event(self, event: Event) -> None:
        if isinstance(event, StepDone):
            rollouts = " ".join(
                f"{one.side} reward {one.mean_reward:.3f} in {one.seconds:.0f} s" for one in event.step.rollouts
            )
            typer.echo(f"  step {event.step.index}: {rollouts}", err=True)
