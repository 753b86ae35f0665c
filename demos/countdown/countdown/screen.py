"""Terminal output of a running demo."""

from collections.abc import Iterable
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from countdown.events import Event, Learning, Progress, Stage, StepDone
from countdown.figures import utilization
from countdown.job import Job
from countdown.record import Step
from countdown.run import Observer
from tlt_common.domain.fleet import Fleet

COLORS = {
    "rollout": "green",
    "training": "magenta",
    "switching": "yellow",
    "updating": "cyan",
    "idle": "dim",
    "starting": "dim",
    "resting": "dim",
}


def first_screen(job: Job) -> str:
    """Describe what the run does and how long it takes."""
    settings, subject = job.settings, job.subject
    compared = "with the same seeds" if settings.paired else "without seeds"
    drafter = (
        "The run starts with a trained drafter and trains it further."
        if settings.drafter
        else "The run starts without a drafter: drafts come from sibling responses until idle workers have trained one."
    )
    return (
        f"{subject.command}: an RL run whose idle workers train the drafter that speeds up its long tail\n"
        f"  policy: {subject.policy}; task: {subject.task}; temperature {settings.temperature:g}\n"
        "  1. start the suite: gateway, coordinator, cache (embedded Redis), tuner, SGLang workers"
        " with their spot trainers\n"
        "  2. run an external TRL GRPO trainer against it; once a drafter exists, every step's prompts are rolled out"
        f" twice\n     {compared}: with TLT on, and with speculation and lending off\n"
        f"  3. write a report\nTakes about {settings.minutes + job.overtime_minutes:.0f} minutes. {drafter}"
    )


class Screen(Observer):
    """Live view on a terminal; plain lines elsewhere."""

    def __init__(self, console: Console, job: Job) -> None:
        self._console = console
        self._job = job
        self._activity = "starting"
        self._fleet: Fleet | None = None
        self._steps: list[Step] = []
        self._rows: list[tuple[str, ...]] = []
        self._live = Live(console=console, refresh_per_second=4, get_renderable=self._view, transient=True)

    def __enter__(self) -> Self:
        self._console.print(first_screen(self._job))
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._live.stop()
            self._console.print(self._table())

    def on_stage(self, text: str) -> None:
        """Show the current stage."""
        self._activity = text
        if not self._console.is_terminal:
            self._console.print(f"{text} ...")

    def on_fleet(self, fleet: Fleet) -> None:
        """Show the workers."""
        self._fleet = fleet

    def on_event(self, event: Event) -> None:
        """Show the trainer's progress."""
        match event:
            case Progress():
                which = "TLT on" if event.side == "on" else "TLT off (comparison)"
                self._activity = f"step {event.step}: {which}, {event.finished} of {event.total} responses"
            case Learning():
                self._activity = f"step {event.step}: updating the policy"
            case Stage():
                self.on_stage(event.text)
            case StepDone():
                self._add(event)

    def _add(self, event: StepDone) -> None:
        self._steps.append(event.step)
        row = _row(event.step, utilization(self._steps))
        self._rows.append(row)
        if not self._console.is_terminal:
            self._console.print("  ".join(f"{name} {value}" for name, value in zip(HEADERS, row, strict=True)))

    def _view(self) -> Group:
        return Group(self._table(), *self._workers(), Text(f"{self._activity} ..."))

    def _table(self) -> Table:
        table = Table(*HEADERS)
        for row in self._rows:
            table.add_row(*row)
        return table

    def _workers(self) -> Iterable[Text]:
        if not self._fleet:
            return
        yield Text(f"queue {self._fleet.queued}  drafter v{self._fleet.drafter.version if self._fleet.drafter else 0}")
        for account in self._fleet.workers:
            status = account.status
            yield Text.assemble(
                f"{account.hello.worker_id}  ",
                (f"{status.state.value:<10}", COLORS.get(status.state.value, "")),
                f" running {status.running:<3} arm {status.arm:<8} accept length {status.accept_length:.2f}"
                f"  drafter v{status.drafter_version}  trained {status.training_steps} steps",
            )


def _row(step: Step, used: float) -> tuple[str, ...]:
    on = step.side("on")
    off = step.side("off") if step.is_compared else None
    return (
        str(step.index),
        f"{on.mean_reward:.2f}",
        f"{step.pairs.identical} of {step.pairs.responses}" if step.pairs else "-",
        f"{on.seconds:.1f} / {off.seconds:.1f}" if off else f"{on.seconds:.1f}",
        f"{step.step_s('off') / step.step_s('on'):.2f}x" if off else "-",
        f"{on.tail_s:.1f} / {off.tail_s:.1f}" if off else f"{on.tail_s:.1f}",
        f"{on.accept_length:.2f}",
        str(on.drafter_version),
        # Not the coordinator's utilization: that includes the off rollouts, during which lending is disabled.
        f"{used:.0%}",
    )


HEADERS = (
    "step", "reward", "identical", "rollout s on/off", "step speedup", "tail s on/off", "accept length", "drafter",
    "idle time used",
)  # fmt: skip
