"""The sentences of the page. Each states what this run measured, also where that is not what we hope for."""

from html import escape
from itertools import pairwise
from statistics import median

from tlt_lab.demo.figures import Figure, figures
from tlt_lab.demo.record import Run
from tlt_lab.demo.report.facts import (
    Comparison,
    compare_lengths,
    compare_rewards,
    facts,
    mean_count,
    responses,
    worker_seconds,
)


def times(figure: Figure | None) -> str:
    """A ratio with one decimal more than anybody needs, or a dash."""
    return f"{figure.median:.2f}&times;" if figure else "&ndash;"


def title(run: Run) -> str:
    """The one line to take away."""
    found = figures(run)
    if (step := found.get("step_speedup")) is None:
        return "No step of this run had a drafter yet"
    return f"Training steps ran {times(step)} as fast, their tail {times(found['tail_speedup'])}"


def comparison(run: Run) -> str:
    """What was compared, and how."""
    first = run.steps[0].side("on")
    began = [step.rollouts[0].side for step in run.steps]
    order = "The order alternates" if all(one != next_ for one, next_ in pairwise(began)) else "The order changes"
    return (
        f"Each of the {len(run.steps)} training steps sent its {len(first.responses)} requests twice, to the same "
        "engines holding the same weights: once with everything <b class=on>on</b> (drafts allowed, idle workers lent "
        "to drafter training) and once with both <b class=off>off</b>, for comparison only; the trainer learns from "
        f"the <b class=on>on</b> side. {order} ({began.count('on')} of {len(run.steps)} steps began with "
        "<b class=on>on</b>), so a noisy machine disturbs both sides alike. Sampling is at temperature 1: the two "
        "sides are different draws from one distribution, never the same texts, and luck with lengths is part of the "
        "spread. Every speedup is off &divide; on within a step; we give the median over the steps and, in brackets, "
        "the least and the most."
    )


def gains(run: Run) -> list[str]:
    """What gain comes from what, one paragraph each."""
    return [_cold_start(run), _lent_time(run), _curriculum(run), _learning(run)]


def samples(name: str, result: Comparison) -> str:
    """The verdict of a Kolmogorov-Smirnov test in words."""
    verdict = (
        "Chance alone explains a gap of this size, as it should: drafts change when tokens are ready, not which."
        if result.is_by_chance
        else "That is more than chance explains. Look into it before trusting any speedup on this page."
    )
    gap = f"{result.distance:.3f}, p&nbsp;=&nbsp;{result.p_value:.2g}"
    return f"Kolmogorov-Smirnov distance of the {name}: {gap}. {verdict}"


def rewards(run: Run) -> str:
    """Rewards of both sides as numbers."""
    sides = [
        f"{side}: mean {sum(r.reward for r in rs) / len(rs):.3f}, {sum(r.correct for r in rs) / len(rs):.1%} correct"
        for side in ("on", "off")
        if (rs := responses(run, "on" if side == "on" else "off"))
    ]
    tested = samples("rewards", compare_rewards(run))
    caution = (
        "Both sides answer the same prompts, which makes the test lenient; the engine's own tests compare "
        "distributions token by token."
    )
    return f"{'; '.join(sides)}. {tested} {caution}"


def lengths(run: Run) -> str:
    """Response lengths of both sides as numbers."""
    parts = []
    for side in ("on", "off"):
        tokens = sorted(response.tokens for response in responses(run, "on" if side == "on" else "off"))
        parts.append(
            f"{side}: median {tokens[len(tokens) // 2]}, 90th percentile {tokens[len(tokens) * 9 // 10]}, "
            f"longest {tokens[-1]} tokens"
        )
    return f"{'; '.join(parts)}. {samples('lengths', compare_lengths(run))}"


def greedy(run: Run) -> str:
    """Identical greedy responses, with every difference."""
    if run.greedy is None:
        return "Greedy responses were not compared in this run."
    said = (
        f"Of {run.greedy.responses} greedy responses (temperature 0, so repeatable) {run.greedy.identical} are "
        "identical with and without drafts."
    )
    if not run.greedy.differences:
        return said
    listed = "".join(f"<li>{escape(str(difference))}</li>" for difference in run.greedy.differences)
    why = (
        "A round that verifies several tokens adds up in another order than one that makes a single token, which in "
        "bfloat16 decides between tokens that are almost equally likely; in float32 responses are identical, as the "
        "engine's tests check."
    )
    return f"{said} {why} Where the others part, and by how much:<ul>{listed}</ul>"


def _cold_start(run: Run) -> str:
    found = figures(run)
    cold = [fact for fact in facts(run) if fact.is_cold]
    if not cold:
        return "<b>Cold start.</b> A drafter was there before the first step; nothing here shows a cold start."
    ratios = ", ".join(f"{fact.step_speedup:.2f}&times;" for fact in cold)
    which = "the first step" if len(cold) == 1 else f"the first {len(cold)} steps"
    return (
        f"<b>Cold start.</b> The run begins without a drafter, so {which} had drafts from sibling responses "
        f"only ({ratios}). The headline counts the steps after that; over all steps the step figure is "
        f"{times(found.get('step_speedup_all'))} and the tail's {times(found.get('tail_speedup_all'))}."
    )


def _lent_time(run: Run) -> str:
    lent_s = worker_seconds(run, lending=True).get("training", 0.0)
    borrowed_s = worker_seconds(run, lending=False).get("training", 0.0)
    used = figures(run)["bubble_utilisation"].median
    off = "none, and nothing else trained it" if borrowed_s < 0.05 else f"{borrowed_s:.1f} worker-seconds"
    return (
        f"<b>Lent idle time.</b> The drafter was trained for {lent_s:.0f} worker-seconds, {used:.0%} of the time "
        f"workers had no request while lending was on; in the off rollouts it got {off}. "
        f"{len(run.swaps)} drafters were swapped into the running engines. Training shares the machine with the "
        "rollouts that still run; that cost is inside the on side's seconds."
    )


def _curriculum(run: Run) -> str:
    first, last = run.steps[0], run.steps[-1]
    found = figures(run)
    accepted = [found[name].median for name in ("accept_length_first", "accept_length_last") if name in found]
    went = " Accept length went from {:.2f} to {:.2f} between the first and the last step with a drafter."
    drafter = went.format(*accepted) if accepted else ""
    if first.mix == last.mix:
        return f"<b>Prompts.</b> The problems were of one kind throughout.{drafter}"
    tokens = [median(response.tokens for response in step.side("on").responses) for step in (first, last)]
    return (
        f"<b>Shift of the prompts.</b> The problems go from {mean_count(first):.1f} to {mean_count(last):.1f} numbers "
        f"each (median response {tokens[0]:.0f} to {tokens[1]:.0f} tokens), and the drafter has to follow.{drafter}"
    )


def _learning(run: Run) -> str:
    first, last = run.steps[0], run.steps[-1]
    change = f"from {first.side('on').accuracy:.0%} to {last.side('on').accuracy:.0%}"
    why = "chance from one step's problems to the next" if first.mix == last.mix else "the change of problems"
    return (
        f"<b>Reinforcement learning itself</b> hardly moves a policy in so few steps ({len(run.steps)}). Accuracy went "
        f"{change}, mostly by {why}: read that plot as a check that training runs on real rewards, not as a learning "
        "result. The speedups here come from drafting, not from a policy that learned to be brief."
    )
