"""Converts options to a scenario and a trace. Everything is checked before a long simulation starts."""

from dataclasses import dataclass, replace
from statistics import median

from tlt_common.errors import ConfigError
from tlt_simulator.cases import CaseRow, PublishedCase, case
from tlt_simulator.cli.inputs import Inputs
from tlt_simulator.cli.progress import counting
from tlt_simulator.costs import calibrate, files
from tlt_simulator.costs.figure import CostFigure, Source
from tlt_simulator.costs.model import CostModel
from tlt_simulator.costs.roofline import calculated
from tlt_simulator.costs.room import fitting, worker_room
from tlt_simulator.run import with_rollout_share
from tlt_simulator.scenario import RlTrainer, RolloutFleet, Scenario
from tlt_simulator.sweep.keys import changed, parted
from tlt_simulator.trace import RunTrace
from tlt_simulator.traces.apart import read_apart
from tlt_simulator.traces.drawn import drawn_trace
from tlt_simulator.traces.lengths import parsed_lengths
from tlt_worker.engine_config import EngineConfig

OF_A_CASE = frozenset({"--case", "--row", "--steps", "--set", "--seed", "--drafter"})
"""Options that go together with --case, which has all others itself."""
NEEDS = {
    "--row": "--case",
    "--form": "--trace",
    "--cap": "--trace",
    "--tokenizer": "--trace",
    "--prompts": "--lengths",
}
"""Options that require another option."""
DRAFTERS = "public, none, or trained=TOKENS, the tokens of this policy that it learned from"
LENGTHS_STEPS, LENGTHS_PROMPTS, LENGTHS_GROUP = 20, 128, 8
SLOTS = 256
SHARE, SHARE_LOW, SHARE_HIGH = 0.85, 0.7, 0.95
"""Rollouts' share of a step if it is unknown: about 85 % in the run of the TLT paper (arXiv 2511.16665)."""
SHARE_STEPS = 2
"""Steps from which the duration of learning is derived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    """The run to simulate."""

    scenario: Scenario
    trace: RunTrace
    row: CaseRow | None = None
    """The published number to compare with."""
    notes: tuple[str, ...] = ()


def prepared(inputs: Inputs, whole: PublishedCase | None = None) -> PreparedRun:
    """
    Return the scenario that the options describe.

    Args:
        inputs: The options.
        whole: The case that they name, if already looked up.

    Raises:
        ConfigError: Options are missing, conflict, or are not accepted; a trace or a file is invalid; or the model does
            not fit.
    """
    check(inputs)
    if inputs.case is not None:
        found = whole or case(inputs.case)
        return of_case(inputs, found, chosen_row(inputs, found))
    trace = _trace(inputs)
    fleet, costs, notes = _machines(inputs, trace)
    name = inputs.trace.name if inputs.trace else "drawn lengths"
    nothing = RlTrainer(learn_s=CostFigure(value=0, source=Source.ASSUMED), colocated=inputs.colocated is not False)
    scenario = Scenario(name=name, fleet=fleet, trainer=nothing, costs=costs, seed=inputs.seed)
    scenario = changed(_with_drafter(scenario, inputs), parted(inputs.settings or ()))
    scenario, without = _fitting(scenario, trace)
    if "trainer.learn_s" not in parted(inputs.settings or ()):
        scenario = _with_learning(scenario, trace, inputs)
    return PreparedRun(scenario=scenario, trace=trace, notes=(*notes, *without, *trace.notes))


def _fitting(scenario: Scenario, trace: RunTrace) -> tuple[Scenario, tuple[str, ...]]:
    """Return a scenario without the arms that verify more tokens than the log's context, and a note."""
    keys, context = scenario.suite.engine, _context(trace)
    arms = EngineConfig(**dict(keys)).arms_on("cuda")
    fits = fitting(arms, context)
    if len(fits) == len(arms):
        return scenario, ()
    engine = keys.model_copy(update={"arms": tuple(arm.name for arm in fits)})
    suite = scenario.suite.model_copy(update={"engine": engine})
    left_out = ", ".join(arm.name for arm in arms if arm not in fits)
    note = f"arms that verify more tokens than the context of this log, {context}, were left out: {left_out}"
    return scenario.model_copy(update={"suite": suite}), (note,)


def _context(trace: RunTrace) -> int:
    """Return the maximum length of prompt and response together."""
    longest = max((sample.prompt_tokens for step in trace.steps for sample in step.samples), default=0)
    return longest + trace.cap


def chosen_row(inputs: Inputs, found: PublishedCase) -> CaseRow:
    """
    Return the row of a case that an option names, or its only row.

    Raises:
        ConfigError: There is no such row, or there are several.
    """
    rows = {row.label: row for row in found.rows}
    if inputs.row is None and len(rows) == 1:
        return found.rows[0]
    if inputs.row not in rows:
        what = "is required here" if inputs.row is None else f"is {inputs.row!r}"
        raise ConfigError(f"--row {what}; accepted for --case {found.name}: {'; '.join(rows)}", field="row")
    return rows[inputs.row]


def of_case(inputs: Inputs, found: PublishedCase, row: CaseRow) -> PreparedRun:
    """
    Return a row of a case, changed by options.

    Raises:
        ConfigError: An option is not accepted.
    """
    notes = (*(f"published: {known}" for known in found.known), *(f"assumed: {assumed}" for assumed in found.assumed))
    named = row.scenario.model_copy(update={"name": f"{found.name}, {row.label}", "seed": inputs.seed})
    scenario = changed(_with_drafter(replace(row, scenario=named).prepared(), inputs), parted(inputs.settings or ()))
    trace = row.trace(row.steps if inputs.steps is None else inputs.steps)
    return PreparedRun(scenario=scenario, trace=trace, row=row, notes=(*notes, *trace.notes))


def check(inputs: Inputs) -> None:
    """
    Check the options, before anything is read.

    Raises:
        ConfigError: Options are missing, conflict, or are not accepted.
    """
    _check_source(inputs)
    _check_numbers(inputs)


def _check_source(inputs: Inputs) -> None:
    sources = [name for name in ("case", "trace", "lengths") if getattr(inputs, name) is not None]
    if len(sources) != 1:
        given = f"not {' and '.join(f'--{name}' for name in sources)} together" if sources else "one is required"
        raise ConfigError(f"--case NAME, --trace PATH or --lengths SPEC: {given}", field="trace")
    wrong = [name for name in inputs.given if name not in OF_A_CASE] if inputs.case is not None else []
    if wrong:
        accepted = ", ".join(sorted(OF_A_CASE))
        raise ConfigError(f"{wrong[0]}: not with --case, which has its own; accepted: {accepted}", field="case")
    for name, needed in NEEDS.items():
        if name in inputs.given and needed not in inputs.given:
            raise ConfigError(f"{name}: only with {needed}", field=name.lstrip("-"))
    if inputs.learn_s is not None and inputs.rollout_share is not None:
        raise ConfigError("--learn-s and --rollout-share: accepted: one of them", field="learn_s")


def _check_numbers(inputs: Inputs) -> None:
    for name in ("prompts", "group", "steps", "gpus", "gpus_per_worker", "slots", "kv_room"):
        value = getattr(inputs, name)
        if value is not None and value < 1:
            raise ConfigError(f"--{name.replace('_', '-')} is {value}; accepted: at least 1", field=name)
    if inputs.learn_s is not None and inputs.learn_s < 0:
        raise ConfigError(f"--learn-s is {inputs.learn_s:g}; accepted: at least 0", field="learn_s")
    if inputs.rollout_share is not None and not 0 < inputs.rollout_share <= 1:
        raise ConfigError(
            f"--rollout-share is {inputs.rollout_share:g}; accepted: above 0, at most 1", field="rollout_share"
        )
    if inputs.drafter is None and inputs.case is None:
        raise ConfigError(f"--drafter is required; accepted: {DRAFTERS}", field="drafter")
    _drafter(inputs)


def _drafter(inputs: Inputs) -> dict[str, float | bool]:
    """Return the fields of a scenario for the drafter that it begins with."""
    match (inputs.drafter or "").partition("="):
        case ("", "", ""):
            return {}
        case ("none" | "public" as kind, "", ""):
            return {"drafter_tokens": 0.0, "public_drafter": kind == "public"}
        case ("trained", "=", tokens) if tokens.replace("_", "").isdecimal() and int(tokens) > 0:
            return {"drafter_tokens": float(int(tokens)), "public_drafter": False}
    raise ConfigError(f"--drafter is {inputs.drafter!r}; accepted: {DRAFTERS}", field="drafter")


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
    if inputs.steps is None or inputs.steps >= len(found.steps):
        return found
    note = f"the first {inputs.steps} of the {len(found.steps)} steps of the trace"
    return RunTrace(source=found.source, steps=found.steps[: inputs.steps], cap=found.cap, notes=(*found.notes, note))


def _machines(inputs: Inputs, trace: RunTrace) -> tuple[RolloutFleet, CostModel, tuple[str, ...]]:
    """Return the fleet, its costs, and the warnings of its engine's plan."""
    if inputs.gpus is None:
        raise ConfigError("--gpus is required: the total number of GPUs for rollouts", field="gpus")
    each = inputs.gpus_per_worker or 1
    if inputs.gpus % each:
        raise ConfigError(f"--gpus is {inputs.gpus}; accepted: a multiple of --gpus-per-worker, {each}", field="gpus")
    costs, notes = _costs(inputs, each), tuple[str, ...]()
    slots, kv_room = inputs.slots or SLOTS, inputs.kv_room
    if kv_room is None:
        card, model = _named(inputs, "card"), _named(inputs, "model")
        room = worker_room(card, model, each, slots=slots, context=_context(trace))
        kv_room, notes = room.kv_room, room.warnings
    return RolloutFleet(workers=inputs.gpus // each, gpus=each, slots=slots, kv_room=kv_room), costs, notes


def _costs(inputs: Inputs, gpus: int) -> CostModel:
    if inputs.costs is not None:
        if inputs.calibrate is not None:
            raise ConfigError("--costs and --calibrate: accepted: one of them", field="costs")
        return files.load(inputs.costs)
    found = calculated(_named(inputs, "card"), _named(inputs, "model"), gpus)
    return found if inputs.calibrate is None else calibrate.calibrated(found, inputs.calibrate)


def _named(inputs: Inputs, name: str) -> str:
    value = getattr(inputs, name)
    if value is None:
        instead = "--costs and --kv-room instead" if inputs.costs is None else "--kv-room instead"
        raise ConfigError(f"--{name} is required; accepted: {instead}", field=name)
    return str(value)


def _with_drafter(scenario: Scenario, inputs: Inputs) -> Scenario:
    return scenario.model_copy(update=_drafter(inputs))


def _with_learning(scenario: Scenario, trace: RunTrace, inputs: Inputs) -> Scenario:
    """Return a scenario with the learning time: from an option, otherwise from the trace, otherwise assumed."""
    steps = trace.steps[:SHARE_STEPS]
    if inputs.learn_s is not None:
        return _learning(scenario, CostFigure(value=inputs.learn_s, source=Source.MEASURED, of="--learn-s"))
    if inputs.rollout_share is not None:
        return with_rollout_share(steps, scenario, inputs.rollout_share)
    measured = [step.step_s - step.rollout_s for step in trace.steps if step.step_s and step.rollout_s]
    if measured:
        seconds = max(0.0, median(measured) - scenario.costs.update_s.value)
        of = f"steps of the trace without their rollouts, median of {len(measured)}, less an update"
        return _learning(scenario, CostFigure(value=seconds, source=Source.MEASURED, of=of))
    value, low, high = (
        with_rollout_share(steps, scenario, share).trainer.learn_s.value for share in (SHARE, SHARE_HIGH, SHARE_LOW)
    )
    of = f"rollouts are {SHARE:.0%} of a step without the suite ({SHARE_LOW:.0%} to {SHARE_HIGH:.0%})"
    return _learning(scenario, CostFigure(value=value, low=low, high=high, source=Source.ASSUMED, of=of))


def _learning(scenario: Scenario, learn_s: CostFigure) -> Scenario:
    return scenario.model_copy(update={"trainer": scenario.trainer.model_copy(update={"learn_s": learn_s})})
