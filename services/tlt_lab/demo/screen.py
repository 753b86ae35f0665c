"""What a person sees while a demo runs."""

from collections.abc import Iterable
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tlt_common.domain.fleet import Fleet
from tlt_lab.demo.events import Event, Learning, Progress, StepDone
from tlt_lab.demo.figures import utilisation
from tlt_lab.demo.record import Step
from tlt_lab.demo.run import Watcher
from tlt_lab.demo.settings import DemoSettings

COLORS = {"rollout": "green", "training": "magenta", "switching": "yellow", "updating": "cyan", "idle": "dim"}


def first_screen(settings: DemoSettings) -> str:
    """What will happen, and how long it takes."""
    return (
        "TLT demo: an RL run whose idle workers train the drafter that makes its own tail faster\n"
        f"  1. start the suite: gateway, coordinator, cache (embedded Redis), tuner, {settings.workers} SGLang workers"
        " with their spot trainers   ~1 min\n"
        f"  2. run an external TRL GRPO trainer against it, up to {settings.steps} steps; every step's prompts are"
        f" answered twice,\n     with everything on and with drafts and lending off"
        f"   ~{settings.minutes:g} min\n"
        "  3. write a report   a few seconds\n"
        "  No drafter exists at first: drafts are looked up in sibling responses until idle workers have trained one."
    )


class Screen(Watcher):
    """A live view on a terminal; plain lines elsewhere."""

    def __init__(self, console: Console, settings: DemoSettings) -> None:
        self._console = console
        self._settings = settings
        self._doing = "starting"
        self._fleet: Fleet | None = None
        self._steps: list[Step] = []
        self._rows: list[tuple[str, ...]] = []
        self._live = Live(console=console, refresh_per_second=4, get_renderable=self._view, transient=True)

    def __enter__(self) -> Self:
        self._console.print(first_screen(self._settings))
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._live.stop()
            self._console.print(self._table())

    def say(self, text: str) -> None:
        """Show what is being waited for."""
        self._doing = text
        if not self._console.is_terminal:
            self._console.print(f"{text} ...")

    def fleet(self, fleet: Fleet) -> None:
        """Show the workers."""
        self._fleet = fleet

    def event(self, event: Event) -> None:
        """Show how far the trainer is."""
        match event:
            case Progress():
                which = "everything on" if event.side == "on" else "comparison: off"
                self._doing = f"step {event.step}: {which}, {event.finished} of {event.total} responses"
            case Learning():
                self._doing = f"step {event.step}: learning"
            case StepDone():
                self._add(event)

    def _add(self, event: StepDone) -> None:
        step, on, off = event.step, event.step.side("on"), event.step.side("off")
        self._steps.append(step)
        row = (
            str(step.index),
            f"{on.mean_reward:.2f} / {off.mean_reward:.2f}",
            f"{on.seconds:.1f} / {off.seconds:.1f}",
            f"{step.step_s('off') / step.step_s('on'):.2f}x",
            f"{on.tail_s:.1f} / {off.tail_s:.1f}",
            f"{on.accept_length:.2f}",
            str(on.drafter_version),
            # Not the coordinator's: that one counts the comparison, during which nothing may be lent.
            f"{utilisation(self._steps):.0%}",
        )
        self._rows.append(row)
        if not self._console.is_terminal:
            self._console.print("  ".join(f"{name} {value}" for name, value in zip(HEADERS, row, strict=True)))

    def _view(self) -> Group:
        return Group(self._table(), *self._workers(), Text(f"{self._doing} ..."))

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


HEADERS = ("step", "reward on/off", "rollout s on/off", "step off/on", "tail s on/off", "accept", "drafter", "bubble")
