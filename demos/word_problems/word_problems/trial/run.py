"""Runs a trial: starts a suite, rolls out, trains, rolls out again."""

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from countdown import pairs
from countdown.compare import Grade, graded
from countdown.coordinator import fleet_at, lend
from countdown.machine import machine
from countdown.record import Rollout, Side
from tlt_common.domain.fleet import Fleet, WorkerState
from tlt_common.errors import ConfigError, TltError
from tlt_local.collecting.prompts import Tokenizer, read_prompts, tokenizer_of
from tlt_local.configuration.config import StackConfig
from tlt_local.configuration.file import stack_config
from tlt_local.interrupt import run as run_until_signalled
from tlt_local.models.published import SMOLLM2, checkpoint_of
from tlt_local.readiness import PUBLISHER
from tlt_local.stack import Stack
from tlt_local.supervision.start_lines import StartLines
from tlt_suite import Client, Sample, SamplingParams, Speculation, TokenChunk
from word_problems.prompts import FIRST_SEED, conversation
from word_problems.settings import ADAPTING, NO_DRAFTER, RealSettings, chosen
from word_problems.task import draw_problems
from word_problems.trial.outcome import Learned, Outcome, report

SEED = 0
LOOK_S = 1.0
TRAIN_S, ADAPT_S = 120.0, 30.0
"""Longest training between the rollouts, of a first drafter and of one that is given. More would need more data than a
batch has: a given one has learned little even from several batches (docs/results/rollout.md)."""
STOP_S = 30.0
"""Time kept for stopping the suite."""
SLOWER = 1.2
"""How much longer than without speculation a rollout is expected to take at most."""
FEW = {**ADAPTING, "publish.every_tokens": "4096"}
"""Settings of spot trainers that have one batch to learn from."""
NO_GRADE = Grade(reward=0.0, correct=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Options of a trial, as `tlt try --help` describes them."""

    model: Path
    prompts: Path | None = None
    count: int = 8
    samples: int = 2
    max_new_tokens: int = 384
    temperature: float | None = None
    drafter: str | None = None
    minutes: float = 10.0
    workers: int | None = None
    settings: tuple[str, ...] = ()

    @property
    def is_smollm2(self) -> bool:
        """Whether the model is the one that the repository ships a drafter for."""
        return checkpoint_of(self.model).resolve() == SMOLLM2.directory.resolve()

    def sampling(self) -> SamplingParams:
        """Return the sampling parameters, seeded, so that both rollouts generate the same."""
        usual = RealSettings().temperature if self.is_smollm2 else 1.0
        temperature = usual if self.temperature is None else self.temperature
        return SamplingParams(temperature=temperature, max_new_tokens=self.max_new_tokens, seed=SEED)

    def drafter_path(self) -> str:
        """
        Return the drafter to start with; empty for none.

        Raises:
            ConfigError: There is none at the path.
        """
        usual = None if self.is_smollm2 else NO_DRAFTER
        return chosen(drafter=usual if self.drafter is None else self.drafter).drafter


def try_out(wish: Wish, lines: StartLines, *, json_to: str) -> None:
    """
    Run a trial in a terminal, and print and write its result.

    Raises:
        TltError: An option is invalid, or the suite failed.
        typer.Exit: The trial was interrupted.
    """
    found: list[Outcome] = []

    async def body() -> None:
        found.append(await trial(wish, lines.say))

    signal_number = run_until_signalled(body)
    lines.stop()
    if not found:
        raise typer.Exit(128 + (signal_number or 0))
    typer.echo(f"\n{report(found[0])}", err=json_to == "-")
    if json_to:
        _write(found[0], json_to)


async def trial(wish: Wish, say: Callable[[str], None]) -> Outcome:
    """
    Run a trial.

    Args:
        wish: Its options.
        say: Called with a line about each stage, and several times within the long ones.

    Raises:
        ConfigError: An option is invalid.
        UnavailableError: The suite failed, or the rollout without speculation takes too long.
    """
    began_s = time.monotonic()
    model = checkpoint_of(wish.model)
    prompts = _prompts(wish, tokenizer_of(model))
    sampling, drafter = wish.sampling(), wish.drafter_path()
    config = _suite(wish, model, drafter, longest=max(map(len, prompts)) + wish.max_new_tokens)

    def left_s() -> float:
        return began_s + 60 * wish.minutes - STOP_S - time.monotonic()

    if drafter:
        say(f"starting with the drafter {drafter}")
    async with Stack(config, say=say) as stack, Client(stack.endpoint) as client:
        batch = _Batch(client=client, coordinator=stack.coordinator, prompts=prompts, samples=wish.samples, say=say)
        start_up_s = time.monotonic() - began_s
        await lend(stack.coordinator, enabled=False)
        say(f"rolling out {len(prompts) * wish.samples} responses without speculation")
        try:
            async with asyncio.timeout(left_s() / (1 + SLOWER)):
                off, plain = await batch.roll_out("off", sampling, salt="off")
        except TimeoutError:
            raise TltError(
                f"the responses take too long for --minutes {wish.minutes:g}; give more, or fewer with --count, "
                "--samples or --max-new-tokens"
            ) from None
        learned = await _train(
            stack.coordinator,
            min(ADAPT_S if drafter else TRAIN_S, left_s() - SLOWER * off.seconds),
            say,
            is_given=bool(drafter),
        )
        say("rolling out the same responses with speculation")
        on, drafted = await batch.roll_out("on", sampling, salt="on")
        first_gain_s = time.monotonic() - began_s
        rollouts, compared = [off, on], [pairs.compare(drafted, plain)]
        if left_s() > SLOWER * on.seconds:
            say("rolling them out once more, now that the engines know their arms")
            again, drafted = await batch.roll_out("on", sampling, salt="again")
            rollouts.append(again)
            compared.append(pairs.compare(drafted, plain))
        fleet = await fleet_at(stack.coordinator)
        say("stopping the suite")
    return Outcome(
        model=str(wish.model),
        machine=machine(),
        device=fleet.workers[0].hello.device,
        dtype=_dtype(config),
        prompts=len(prompts),
        samples=wish.samples,
        max_new_tokens=wish.max_new_tokens,
        temperature=sampling.temperature,
        drafter=drafter,
        start_up_s=start_up_s,
        first_gain_s=first_gain_s,
        rollouts=tuple(rollouts),
        pairs=tuple(compared),
        learned=learned,
    )


def _prompts(wish: Wish, tokenizer: Tokenizer) -> list[tuple[int, ...]]:
    if wish.prompts is not None:
        return read_prompts(wish.prompts, tokenizer)[: wish.count]
    problems = draw_problems(wish.count, seed=FIRST_SEED)  # which the shipped drafter has not seen
    try:
        return [tuple(tokenizer.chat(conversation(problem))) for problem in problems]
    except ValueError:  # a base model, without a chat template
        return [tuple(tokenizer.encode(problem.prompt)) for problem in problems]


def _suite(wish: Wish, model: Path, drafter: str, *, longest: int) -> StackConfig:
    """Return the configuration of the suite: that of `tlt up`, in float32 on a CPU, and with trainers in a hurry."""
    usual = stack_config(None, {"model": model, "workers": wish.workers, "port": 0}, wish.settings)
    engine = {"engine.context_length": str(longest)}
    if not usual.placement.gpus_each:
        engine["engine.dtype"] = "float32"  # in which both sides' responses are identical
    given = usual.settings
    settings = {
        **given,
        "worker": {**engine, **given.get("worker", {})},
        "trainer": {**FEW, **given.get("trainer", {})},
    }
    return usual.model_copy(update={"drafter": Path(drafter) if drafter else None, "settings": settings})


def _dtype(config: StackConfig) -> str:
    return str(config.settings["worker"].get("engine.dtype") or "the engine's default dtype")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """The batch of a trial, which is rolled out several times."""

    client: Client
    coordinator: str
    prompts: Sequence[Sequence[int]]
    samples: int
    say: Callable[[str], None]

    async def roll_out(
        self, side: Side, sampling: SamplingParams, *, salt: str
    ) -> tuple[Rollout, list[list[TokenChunk]]]:
        """
        Roll out the batch; return its record, and the responses by prompt and sample. Captures states.

        The salt is one of its own, since n-gram arms would copy the responses of an earlier rollout.
        """
        finished: list[Sample] = []
        every = max(1, len(self.prompts) * self.samples // 6)

        def on_progress(sample: Sample) -> None:
            finished.append(sample)
            if sample.finished_count % every == 0:
                self.say(f"rolling out: {sample.finished_count} of {sample.total_count} responses are done")

        began_unix_s, began_s = time.time(), time.monotonic()
        responses = await self.client.batch(
            self.prompts,
            self.samples,
            sampling,
            on_progress=on_progress,
            speculation=Speculation.AUTO if side == "on" else Speculation.OFF,
            cache_salt=salt,
        )
        seconds = time.monotonic() - began_s
        fleet = await fleet_at(self.coordinator)
        record = Rollout(
            side=side,
            began_unix_s=began_unix_s,
            seconds=seconds,
            responses=tuple(graded(sample, NO_GRADE) for sample in finished),
            ledger={},
            drafter_version=0 if side == "off" else loaded(fleet),
        )
        return record, responses


def loaded(fleet: Fleet) -> int:
    """Return the oldest drafter version among the workers; 0 if one has none."""
    return min((account.status.drafter_version for account in fleet.workers), default=0)


async def _train(coordinator: str, limit_s: float, say: Callable[[str], None], *, is_given: bool) -> Learned:
    """Lend the workers until their trainers have published a drafter, have nothing left to learn, or time is up."""
    began_s = time.monotonic()
    say(f"training a drafter on the states of these responses, for at most {max(0.0, limit_s):.0f} s")
    await lend(coordinator, enabled=True)
    ended, told_s, before = "", began_s, 0
    while not ended:
        await asyncio.sleep(LOOK_S)
        fleet, seconds = await fleet_at(coordinator), time.monotonic() - began_s
        if is_given:  # what the drafter that the suite started with had learned from before
            before = before or _states(fleet)
        ended = why_done(fleet) or (f"time was up after {seconds:.0f} s" if seconds >= limit_s else "")
        if time.monotonic() - told_s > 5 * LOOK_S:
            told_s = time.monotonic()
            say(f"training: {_states(fleet) - before} states, loss {_loss(fleet):.2f}")
    trained = [record for record in fleet.drafters if record.worker_id != PUBLISHER]
    return Learned(
        seconds=time.monotonic() - began_s,
        states=_states(fleet) - before,
        loss=_loss(fleet),
        published=trained[-1].version if trained else 0,
        held_out_top1=trained[-1].held_out_top1 if trained else 0.0,
        ended=ended,
    )


def why_done(fleet: Fleet) -> str:
    """Return why training between the rollouts is done; empty while it is not."""
    trained = [record.version for record in fleet.drafters if record.worker_id != PUBLISHER]
    if trained and loaded(fleet) >= trained[-1]:
        return "a drafter was published"
    if (
        fleet.workers
        and all(account.status.state is WorkerState.RESTING for account in fleet.workers)
        and _states(fleet)
    ):
        return "nothing was left to learn"
    return ""


def _states(fleet: Fleet) -> int:
    return max((account.status.training_tokens for account in fleet.workers), default=0)


def _loss(fleet: Fleet) -> float:
    losses = [account.status.training_loss for account in fleet.workers if account.status.training_steps]
    return min(losses, default=0.0)


def _write(outcome: Outcome, to: str) -> None:
    text = outcome.model_dump_json(indent=2) + "\n"
    if to == "-":
        sys.stdout.write(text)
        return
    try:
        Path(to).write_text(text)
    except OSError as error:
        raise ConfigError(f"--json: {to} cannot be written: {error.strerror}", field="json") from error
