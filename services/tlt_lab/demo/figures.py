"""The figures of a run, each a ratio or share taken within it. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from tlt_lab.demo.record import Run, Side, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number, and how far it moved within the run."""

    median: float
    least: float
    most: float


def figures(run: Run) -> dict[str, Figure]:
    """
    All figures by name. Steps that began before the first drafter was there show what a cold start costs; they are in
    the `_all` figures and not in the others. Plain ones are medians over steps; `_total` ones are ratios of sums, what
    all steps with a drafter took together.
    """
    warm = [step for step in run.steps if _had_drafter(run, step)]
    found: dict[str, Figure] = {}
    for suffix, steps in (("", warm), ("_all", run.steps)):
        found |= _over(steps, f"step_speedup{suffix}", lambda step: step.step_s("off") / step.step_s("on"))
        found |= _over(
            steps, f"rollout_speedup{suffix}", lambda step: step.side("off").seconds / step.side("on").seconds
        )
        found |= _over(steps, f"tail_speedup{suffix}", _tail_ratio)
        found |= _over(steps, f"token_rate_speedup{suffix}", _token_rate_ratio)
    if warm:
        found["step_speedup_total"] = _single(_ratio_of_sums(warm, Step.step_s))
        found["tail_speedup_total"] = _single(_ratio_of_sums(warm, lambda step, side: step.side(side).tail_s))
    accepted = [step.side("on").accept_length for step in run.steps]
    after = [step.side("on").accept_length for step in warm]
    if after:
        found["accept_length_first"] = _single(after[0])
        found["accept_length_last"] = _single(after[-1])
    if accepted:
        found["accept_length_cold"] = _single(accepted[0])
    found |= _over(run.steps, "bubble_utilisation", _utilisation, total=utilisation(run.steps))
    for side in ("on", "off"):
        found |= _over(run.steps, f"reward_{side}", lambda step, side=side: step.side(side).mean_reward)  # type: ignore[misc]
    if run.greedy:
        found["greedy_identical"] = _single(run.greedy.identical / run.greedy.responses)
        found["greedy_largest_gap"] = _single(run.greedy.largest_gap)
    return found


def utilisation(steps: Sequence[Step]) -> float:
    """Training / (training + idle + switching) while lending was on: the `on` rollouts and learning."""
    seconds: dict[str, float] = {}
    for step in steps:
        for ledger in (step.side("on").ledger, step.learn_ledger):
            for state, spent_s in ledger.items():
                seconds[state] = seconds.get(state, 0.0) + spent_s
    bubble_s = sum(seconds.get(state, 0.0) for state in ("training", "idle", "switching"))
    return seconds.get("training", 0.0) / bubble_s if bubble_s else 0.0


def _utilisation(step: Step) -> float:
    return utilisation([step])


def _had_drafter(run: Run, step: Step) -> bool:
    began = step.side("on").began_unix_s
    return any(swap.at_unix_s <= began for swap in run.swaps)


def _tail_ratio(step: Step) -> float:
    return step.side("off").tail_s / max(1e-3, step.side("on").tail_s)


def _token_rate_ratio(step: Step) -> float:
    on, off = step.side("on"), step.side("off")
    return (on.tokens / on.seconds) / (off.tokens / off.seconds)


def _ratio_of_sums(steps: Sequence[Step], seconds: Callable[[Step, Side], float]) -> float:
    off_s, on_s = (sum(seconds(step, side) for step in steps) for side in ("off", "on"))
    return off_s / max(1e-3, on_s)


def _over(
    steps: Sequence[Step], name: str, value: Callable[[Step], float], *, total: float | None = None
) -> dict[str, Figure]:
    values = [value(step) for step in steps]
    if not values:
        return {}
    return {name: Figure(median=median(values) if total is None else total, least=min(values), most=max(values))}


def _single(value: float) -> Figure:
    return Figure(median=value, least=value, most=value)
