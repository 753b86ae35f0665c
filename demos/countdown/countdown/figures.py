"""Figures of a run: ratios and shares measured within it. Pure."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean, median, stdev

from countdown.fresh import FreshScores, accept_length, adapted_over_frozen
from countdown.record import Pairs, Run, Side, Step
from tlt_common.domain.fleet import BUBBLES

NORMAL_95 = 1.96
"""Standard errors on each side of a mean in a 95 % confidence interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A value with its range: minimum and maximum over steps, or a 95 % confidence interval."""

    value: float
    low: float
    high: float


def figures(run: Run) -> dict[str, Figure]:
    """
    Return all figures by name.

    Ratios are off divided by on, over the steps that ran on both sides: those that began with a drafter. Figures
    without a suffix are medians over steps; `_total` figures are ratios of sums over all of these steps.
    """
    compared = run.compared
    found: dict[str, Figure] = {}
    found |= _over(compared, "step_speedup", lambda step: step.step_s("off") / step.step_s("on"))
    found |= _over(compared, "rollout_speedup", lambda step: step.side("off").seconds / step.side("on").seconds)
    found |= _over(compared, "tail_speedup", lambda step: step.side("off").tail_s / step.side("on").tail_s)
    found |= _over(compared, "token_rate_speedup", _token_rate_ratio)
    if compared:
        found["step_speedup_total"] = _single(_ratio_of_sums(compared, Step.step_s))
        found["tail_speedup_total"] = _single(_ratio_of_sums(compared, lambda step, side: step.side(side).tail_s))
    found |= _identical([step.pairs for step in compared if step.pairs])
    for side in ("on", "off"):
        found |= _rewards(compared, side)
    return found | _of_on_side(run) | _of_fresh(run.fresh)


def utilization(steps: Sequence[Step]) -> float:
    """Return training / all bubbles while lending was enabled: the `on` rollouts and learning."""
    seconds: dict[str, float] = {}
    for step in steps:
        for ledger in (step.side("on").ledger, step.learn_ledger):
            for state, spent_s in ledger.items():
                seconds[state] = seconds.get(state, 0.0) + spent_s
    bubble_s = sum(seconds.get(state, 0.0) for state in BUBBLES)
    return seconds.get("training", 0.0) / bubble_s if bubble_s else 0.0


def had_drafter(run: Run, step: Step) -> bool:
    """Return whether a drafter had been published when the step's `on` rollout began."""
    began = step.side("on").began_unix_s
    return any(swap.at_unix_s <= began for swap in run.swaps)


def _of_on_side(run: Run) -> dict[str, Figure]:
    """Return the figures that need no comparison."""
    found: dict[str, Figure] = {}
    if run.trained:
        found["first_swap_minute"] = _single((run.trained[0].at_unix_s - run.began_unix_s) / 60)
    if run.steps:
        found["steps"] = _single(len(run.steps))
        found["accept_length_cold"] = _single(run.steps[0].side("on").accept_length)
    if warm := [step.side("on").accept_length for step in run.steps if had_drafter(run, step)]:
        found["accept_length_first"] = _single(warm[0])
        found["accept_length_last"] = _single(warm[-1])
    return found | _over(
        run.steps, "bubble_utilisation", lambda step: utilization([step]), total=utilization(run.steps)
    )


def _of_fresh(scores: FreshScores | None) -> dict[str, Figure]:
    """Return the accept lengths of both drafters on fresh prompts."""
    if scores is None:
        return {}
    ratio, low, high = adapted_over_frozen(scores)
    return {
        "accept_length_frozen": _single(accept_length(scores.frozen)),
        "accept_length_adapted": _single(accept_length(scores.adapted)),
        "adapted_over_frozen": Figure(value=ratio, low=low, high=high),
    }


def _identical(pairs: Sequence[Pairs]) -> dict[str, Figure]:
    if not pairs:
        return {}
    shares = [each.identical / each.responses for each in pairs]
    total = sum(each.identical for each in pairs) / sum(each.responses for each in pairs)
    return {
        "identical_responses": Figure(value=total, low=min(shares), high=max(shares)),
        "max_logprob_gap": _single(max(each.max_logprob_gap for each in pairs)),
    }


def _rewards(steps: Sequence[Step], side: Side) -> dict[str, Figure]:
    """Return the mean reward with its 95 % interval. Responses to one prompt are correlated, so prompts count once."""
    by_prompt: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
    for step in steps:
        for response in step.side(side).responses:
            by_prompt[step.index, response.prompt].append(response.reward)
    means = [mean(rewards) for rewards in by_prompt.values()]
    if not means:
        return {}
    half = NORMAL_95 * stdev(means) / len(means) ** 0.5 if len(means) > 1 else 0.0
    return {f"reward_{side}": Figure(value=mean(means), low=mean(means) - half, high=mean(means) + half)}


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
    return {name: Figure(value=median(values) if total is None else total, low=min(values), high=max(values))}


def _single(value: float) -> Figure:
    return Figure(value=value, low=value, high=value)
