"""From options to runs: reads the log, describes the machines, sets keys, and finds how long the RL trainer learns."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import median

from tlt_common.errors import ConfigError
from tlt_simulator.cases import CaseRow, PublishedCase, case
from tlt_simulator.cli.inputs import DRAFTERS, Inputs
from tlt_simulator.cli.progress import counting
from tlt_simulator.costs import calibrate, files
from tlt_simulator.costs.figure import CostFigure, Source
from tlt_simulator.costs.roofline import calculated
from tlt_simulator.fit.fitting import fit_journal
from tlt_simulator.run import with_rollout_share
from tlt_simulator.scenario import UNPLANNED, RlTrainer, RolloutFleet, Scenario
from tlt_simulator.sweep.keys import changed, parted
from tlt_simulator.trace import RunTrace
from tlt_simulator.traces.apart import read_apart
from tlt_simulator.traces.drawn import drawn_trace
from tlt_simulator.traces.lengths import parsed_lengths

LENGTHS_STEPS, LENGTHS_PROMPTS, LENGTHS_GROUP = 20, 128, 8
SLOTS = 256
SHARE, SHARE_LOW, SHARE_HIGH = 0.85, 0.7, 0.95
"""Rollouts' share of a step if it is unknown: about 85 % in the run of the TLT paper (arXiv 2511.16665)."""
FITTED = (
    "machines, costs, arms and the first drafter are fitted to this journal; keys with which it was recorded, such as "
    "publish.every_tokens, are the defaults unless --set says otherwise"
)
COLOCATED = "the RL trainer shares the rollout GPUs: of the integrations, only TRL's does (docs/trainers.md)"
SHARE_STEPS = 2
"""Steps from which the duration of learning is derived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    """A run to simulate."""

    scenario: Scenario
    trace: RunTrace
    case: PublishedCase | None = None
    row: CaseRow | None = None
    """The case's published number to compare with."""
    notes: tuple[str, ...] = ()


def open_rows(inputs: Inputs) -> tuple[str, ...]:
    """
    Return the labels of the case's rows if there are several and no option names one. Simulates nothing.

    Raises:
        ConfigError: There is no such case or row.
    """
    rows = () if inputs.case is None else _rows(inputs, case(inputs.case))
    return tuple(row.label for row in rows) if len(rows) > 1 else ()


def prepared(inputs: Inputs) -> tuple[PreparedRun, ...]:
    """
    Return the run that the options describe; of a case without --row, all its rows. The options have been checked, and
    the rest is checked before a long simulation starts.

    Raises:
        ConfigError: A value is not accepted, a trace or a file is invalid, or the model does not fit.
    """
    drafter = _first_drafter(inputs)
    if inputs.case is not None:
        found = case(inputs.case)
        return tuple(_of_case(inputs, found, row, drafter) for row in _rows(inputs, found))
    if inputs.gpus is None:  # as has been checked, the log is a journal
        return (_recorded(inputs),)
    trace = _trace(inputs)
    scenario, settings = _described(inputs, drafter), parted(inputs.settings or ())
    scenario = changed(scenario, settings)
    if inputs.card is not None and inputs.model is not None:
        scenario = scenario.planned(inputs.card, inputs.model, trace.longest_context, kv_room=inputs.kv_room)
    if "trainer.learn_s" not in settings:
        scenario = _with_learning(scenario, trace, inputs)
    notes = (COLOCATED, *trace.notes) if scenario.trainer.colocated else trace.notes
    return (PreparedRun(scenario=scenario, trace=trace, notes=notes),)


def _first_drafter(inputs: Inputs) -> dict[str, float | bool]:
    """Return the fields of a scenario for the drafter that it begins with; none if no option names it."""
    match (inputs.drafter or "").partition("="):
        case ("", "", ""):
            return {}
        case ("none" | "public" as kind, "", ""):
            return {"drafter_tokens": 0.0, "public_drafter": kind == "public"}
        case ("trained", "=", tokens) if tokens.replace("_", "").isdecimal() and int(tokens) > 0:
            return {"drafter_tokens": float(int(tokens)), "public_drafter": False}
    raise ConfigError(f"--drafter is {inputs.drafter!r}; accepted: {DRAFTERS}", field="drafter")


def _recorded(inputs: Inputs) -> PreparedRun:
    """Return the run of a journal on its own machines, with costs fitted to it."""
    assert inputs.trace is not None  # noqa: S101 - it brings the machines
    fitted = fit_journal(inputs.trace, seed=inputs.seed)
    scenario = fitted.scenario(inputs.trace.name, seed=inputs.seed)
    notes = [FITTED]
    if fitted.assumed:
        notes.append(f"not in the journal: {', '.join(fitted.assumed)}")
    return PreparedRun(
        scenario=changed(scenario, parted(inputs.settings or ())),
        trace=_first(inputs, fitted.trace),
        notes=tuple(notes),
    )


def _of_case(inputs: Inputs, found: PublishedCase, row: CaseRow, drafter: Mapping[str, float | bool]) -> PreparedRun:
    """Return a row of a case, changed by options."""
    named: dict[str, object] = {"name": f"{found.name}, {row.label}", "seed": inputs.seed, **drafter}
    scenario = replace(row, scenario=row.scenario.model_copy(update=named)).prepared()
    trace = row.trace(row.steps if inputs.steps is None else inputs.steps)
    return PreparedRun(
        scenario=changed(scenario, parted(inputs.settings or ())),
        trace=trace,
        case=found,
        row=row,
        notes=(*found.notes, *trace.notes),
    )


def _rows(inputs: Inputs, found: PublishedCase) -> tuple[CaseRow, ...]:
    """Return the row of a case that an option names, or all its rows."""
    rows = tuple(row for row in found.rows if inputs.row in {None, row.label})
    if not rows:
        labels = "; ".join(row.label for row in found.rows)
        raise ConfigError(f"--row is {inputs.row!r}; accepted for --case {found.name}: {labels}", field="row")
    return rows


def _trace(inputs: Inputs) -> RunTrace:
    if inputs.trace is None:
        return drawn_trace(
            parsed_lengths(inputs.lengths or ""),
            steps=inputs.steps or LENGTHS_STEPS,
            prompts=inputs.prompts or LENGTHS_PROMPTS,
            group=inputs.group or LENGTHS_GROUP,
            seed=inputs.seed,
        )
    with counting("responses read") as tell:
        found = read_apart(
            inputs.trace, tell, form=inputs.form, group=inputs.group, cap=inputs.cap, tokenizer=inputs.tokenizer
        )
    return _first(inputs, found)


def _first(inputs: Inputs, found: RunTrace) -> RunTrace:
    """Return the steps that are to be simulated."""
    if inputs.steps is None or inputs.steps >= len(found.steps):
        return found
    note = f"the first {inputs.steps} of the {len(found.steps)} steps of the trace"
    return replace(found, steps=found.steps[: inputs.steps], notes=(*found.notes, note))


def _described(inputs: Inputs, drafter: Mapping[str, float | bool]) -> Scenario:
    """Return the machines and the policy, before keys are set and memory is planned."""
    assert inputs.gpus is not None  # noqa: S101 - checked
    each = inputs.gpus_per_worker or 1
    if inputs.costs is not None:
        costs = files.load(inputs.costs)
    else:
        costs = calculated(inputs.card or "", inputs.model or "", each)
    if inputs.calibrate is not None:
        costs = calibrate.calibrated(costs, inputs.calibrate)
    return Scenario(
        name=inputs.trace.name if inputs.trace else "drawn lengths",
        fleet=RolloutFleet(
            workers=inputs.gpus // each,
            gpus=each,
            slots=inputs.slots or SLOTS,
            kv_room=UNPLANNED if inputs.kv_room is None else inputs.kv_room,
        ),
        trainer=RlTrainer(
            learn_s=CostFigure(value=0, source=Source.ASSUMED),
            colocated=inputs.colocated is True,
            max_staleness=0 if inputs.max_staleness is None else inputs.max_staleness,
        ),
        costs=costs,
        seed=inputs.seed,
    ).model_copy(update=dict(drafter))


def _with_learning(scenario: Scenario, trace: RunTrace, inputs: Inputs) -> Scenario:
    """Return a scenario with the learning time: from an option, otherwise from the trace, otherwise assumed."""
    if inputs.learn_s is not None:
        learn_s = CostFigure(value=inputs.learn_s, source=Source.MEASURED, of="--learn-s")
    elif inputs.rollout_share is None and (measured := trace.learning_s):
        seconds = max(0.0, median(measured) - scenario.costs.update_s.value)
        of = f"steps of the trace without their rollouts, median of {len(measured)}, less an update"
        learn_s = CostFigure(value=seconds, source=Source.MEASURED, of=of)
    else:
        given = inputs.rollout_share
        value, low, high = (SHARE, SHARE_LOW, SHARE_HIGH) if given is None else (given, None, None)
        return with_rollout_share(trace.steps[:SHARE_STEPS], scenario, value, low=low, high=high)
    return scenario.model_copy(update={"trainer": scenario.trainer.model_copy(update={"learn_s": learn_s})})
