"""`tlt bench rollout`: a run of a demo whose steps roll out their prompts on both sides with the same seeds."""

from dataclasses import replace
from pathlib import Path

from rich.console import Console

from countdown.figures import figures
from countdown.job import Job, demo
from countdown.main import recorded
from countdown.record import Run
from countdown.screen import Screen
from countdown.settings import chosen
from tlt_bench.async_trainer import measure as async_trainer
from tlt_bench.result import Result
from tlt_bench.scratch import scratch
from tlt_common.errors import ConfigError, TltError
from tlt_local.models.published import SMOLLM2
from word_problems.job import demo_real
from word_problems.settings import chosen as real_settings

FRESH = "accept lengths on prompts after training, whose responses no drafter saw; the spread is a 95 % interval"


def measure(
    *,
    quick: bool,
    warm: bool,
    no_tail: bool,
    shallow: bool,
    model: str | None,
    drafter: str | None,
    asynchronous: bool,
    packed: bool,
    minutes: float | None,
    keep: Path | None,
) -> Result:
    """
    Run the demo and return its figures. Progress goes to stderr.

    Args:
        quick: Run the demo's short form.
        warm: Start the demo with its shipped drafter.
        no_tail: Give all responses of the demo one length.
        shallow: Serve the demo's policy as it is, without layers that add nothing.
        model: Name of a fetched model to run instead of the demo's policy.
        drafter: Directory of the drafter that the model's run starts with, or none.
        asynchronous: Run TRL's asynchronous trainer instead of the demo's.
        packed: With `asynchronous`: compare all requests on one worker with the defaults, and not these with TLT off.
        minutes: Duration of the run in minutes, or of each side with `asynchronous`; None for the default.
        keep: Directory for run.json and report.html.

    Raises:
        ConfigError: An option is invalid, or the model is not on this machine.
        TltError: No step began with a drafter, so nothing was compared.
    """
    from countdown.report import write_report

    if asynchronous:
        if quick or no_tail or shallow or model or drafter or keep:
            raise ConfigError(
                "--async is not accepted with --quick, --no-tail, --shallow, --model, --drafter or --keep",
                field="async",
            )
        return async_trainer.measure(
            warm=warm, packed=packed, minutes=async_trainer.MINUTES if minutes is None else minutes
        )
    if packed:
        raise ConfigError("--packed is accepted with --async only", field="packed")
    if model is not None:
        job = _of_model(model, quick=quick or warm or no_tail or shallow, drafter=drafter, minutes=minutes)
    elif drafter is not None:
        raise ConfigError("--drafter is accepted with --model only; --warm starts with the demo's", field="drafter")
    else:
        settings = chosen(quick=quick, warm=warm, no_tail=no_tail, shallow=shallow)
        job = demo(settings if minutes is None else replace(settings, minutes=minutes))
    with scratch() as temporary:
        directory = keep or temporary
        with Screen(Console(stderr=True, highlight=False, soft_wrap=True), job) as screen:
            run = recorded(job, directory, screen)
        if keep:
            write_report(run, keep)
    if not run.compared:
        raise TltError(
            f"none of {len(run.steps)} steps began with a drafter, so nothing was compared; use --keep for a report"
        )
    found = result(run)
    if not no_tail:
        return found
    return replace(
        found,
        figures={**found.figures, "no_tail_speedup": found.figures["step_speedup"]},
        spread={**found.spread, "no_tail_speedup": found.spread["step_speedup"]},
    )


def _of_model(model: str, *, quick: bool, drafter: str | None, minutes: float | None) -> Job:
    if model != SMOLLM2.name:
        raise ConfigError(f"--model is {model!r}; accepted: {SMOLLM2.name}", field="model")
    if quick:
        raise ConfigError(
            "--model is not accepted with --quick, --warm, --no-tail or --shallow, which are the demo's", field="model"
        )
    return demo_real(real_settings(drafter=drafter, minutes=minutes))


def result(run: Run) -> Result:
    """Return the figures of a finished run."""
    found = figures(run)
    pairs = [step.pairs for step in run.compared if step.pairs]
    counts = {
        "steps_compared": len(run.compared),
        "identical": sum(each.identical for each in pairs),
        "responses": sum(each.responses for each in pairs),
    }
    differences = {
        f"difference_step_{step.index}_{place}": str(difference)
        for step in run.compared
        for place, difference in enumerate(step.pairs.differences if step.pairs else ())
    }
    return Result(
        name="rollout",
        figures={name: figure.value for name, figure in found.items()} | counts,
        spread={name: (figure.low, figure.high) for name, figure in found.items()},
        repeats=len(run.compared),
        notes={
            "step_speedup": "off / on over paired responses, in steps that began with a drafter",
            "identical_responses": "share of paired responses that are identical token for token; spread over steps",
            "reward_on": "mean; the spread is its 95 % confidence interval, with prompts counted once",
            "first_swap_minute": "minutes from the start of the run to the first drafter trained in it",
            **({"served": run.subject.premises} if run.subject.served else {}),
            **({"adapted_over_frozen": FRESH} if run.fresh else {}),
            **differences,
        },
    )
