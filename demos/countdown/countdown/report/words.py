"""Text of the page. Every sentence states what this run measured, whatever the result."""

from html import escape
from itertools import pairwise
from statistics import median

from countdown.figures import Figure, figures
from countdown.record import Run
from countdown.report.facts import (
    Comparison,
    compare_lengths,
    compare_rewards,
    facts,
    mean_count,
    responses,
    worker_seconds,
)


def times(figure: Figure | None) -> str:
    """Format a ratio; a dash if None."""
    return f"{figure.value:.2f}&times;" if figure else "&ndash;"


def share(figure: Figure | None) -> str:
    """Format a share; a dash if None. Only exactly 1 is shown as 100 %."""
    if figure is None:
        return "&ndash;"
    return "100%" if figure.value == 1.0 else f"{min(figure.value, 0.999):.1%}"


def title(run: Run) -> str:
    """Return the one-line summary."""
    found = figures(run)
    if (step := found.get("step_speedup")) is None:
        return "No step of this run began with a drafter"
    identical = found.get("identical_responses")
    lossless = ", with identical responses" if identical and identical.value == 1.0 else ""
    return f"Training steps ran {times(step)} as fast, and their tails {times(found['tail_speedup'])}{lossless}"


def policy(run: Run) -> str:
    """Say which policy is trained on what, and how it is sampled."""
    subject = run.subject
    temperature = run.settings.get("temperature", "1")  # of runs before it was recorded
    return (
        f"The policy is {escape(subject.policy)}, sampled at temperature {float(temperature):g}; the task is "
        f"{escape(subject.task)}. GRPO trains {escape(subject.trained)}. {escape(subject.premises)}"
    )


def comparison(run: Run) -> str:
    """Describe what was compared, and how."""
    if not run.compared:
        return "No step began with a drafter, so no step was run a second time without TLT. Give the run more time."
    first = run.compared[0].side("on")
    began = [step.rollouts[0].side for step in run.compared]
    order = "The order alternates" if all(one != next_ for one, next_ in pairwise(began)) else "The order changes"
    return (
        f"Each of {len(run.compared)} training steps sent its {len(first.responses)} requests twice, to the same "
        "engines with the same weights: once with TLT <b class=on>on</b> (speculation enabled, idle workers lent to "
        "drafter training) and once with both <b class=off>off</b>, for comparison only. The trainer learns from "
        f"the <b class=on>on</b> side. {_seeds(run)} {order} ({began.count('on')} of {len(began)} steps began with "
        "<b class=on>on</b>), so noise on the machine affects both sides alike. Every speedup is off &divide; on "
        "within a step; the page shows the median over the steps and, in brackets, the minimum and maximum."
    )


def _seeds(run: Run) -> str:
    identical = figures(run).get("identical_responses")
    if identical is None:
        return (
            "Responses are sampled without seeds: the two sides are independent samples from one distribution, so "
            "random variation in lengths contributes to the spread."
        )
    return (
        f"Both sides use the same seeds: {share(identical)} of the responses are identical token for token, so the "
        "speedups compare the time for the same work."
    )


def identical(run: Run) -> str:
    """State how many responses are identical on both sides, and where the others differ."""
    found = [(step.index, step.pairs) for step in run.compared if step.pairs]
    count, same = sum(pairs.responses for _, pairs in found), sum(pairs.identical for _, pairs in found)
    gap = max(pairs.max_logprob_gap for _, pairs in found)
    summary = (
        f"<b>{same} of {count}</b> responses are identical token for token with TLT on and off. "
        f"The logprobs that both sides report for the same token differ by {gap:.1g} nats at most."
    )
    listed = "".join(
        f"<li>step {index}, {escape(str(difference))}</li>"
        for index, pairs in found
        for difference in pairs.differences
    )
    if not listed:
        return summary
    why = (
        "A round that verifies several tokens sums in a different order than one that generates a single token; "
        "rounding then decides between two tokens whose scores, including the seed's noise, are equal within rounding "
        "error."
    )
    return f"{summary} {why} First difference of each of the others:<ul>{listed}</ul>"


def paired_rewards(run: Run) -> str:
    """Report the rewards of both sides, which are the same if all responses are identical."""
    found = figures(run)
    on, off = (_interval(found[f"reward_{side}"]) for side in ("on", "off"))
    if found["identical_responses"].value == 1.0:
        return f"The responses are identical, so the rewards are too: {on} on average on both sides."
    return f"Mean reward: {on} on, {off} off. Only the responses listed above differ."


def _interval(figure: Figure) -> str:
    return f"{figure.value:.3f} (95&nbsp;% interval {figure.low:.3f}&ndash;{figure.high:.3f})"


def gains(run: Run) -> list[str]:
    """Explain the sources of the speedup, one paragraph each."""
    return [_cold_start(run), _lent_time(run), _curriculum(run), _learning(run)]


def training(run: Run) -> str:
    """
    Say what the idle time was used for, and what came of it, in one or two sentences.

    A short run may end before what it trained is published.
    """
    found = figures(run)
    used = found["bubble_utilisation"].value if "bubble_utilisation" in found else 0.0
    spent = f"{used:.0%} of idle worker time trained the drafter" if used else "No idle worker time trained the drafter"
    if not run.trained:
        kept = "the one that the run started with was used throughout" if run.swaps else "none was in use"
        return f"{spent}; no new drafter was published in this run, so {kept}."
    count = len(run.trained)
    minutes = found["first_swap_minute"].value
    swapped = f"{count} new drafters were swapped in, the first" if count > 1 else "One new drafter was swapped in,"
    return f"{spent}. {swapped} after {minutes:.1f} minutes."


def fresh(run: Run) -> str:
    """Compare the drafter that the run started with to the newest one, as a paragraph; empty without fresh prompts."""
    if run.fresh is None:
        return ""
    found = figures(run)
    frozen, adapted, ratio = (
        found[name] for name in ("accept_length_frozen", "accept_length_adapted", "adapted_over_frozen")
    )
    return (
        f"<p>After training, the policy answered {len(run.fresh.frozen)} fresh prompts, and no drafter was trained on "
        f"the responses. On them, the drafter that the run started with yields {frozen.value:.2f} tokens per round, "
        f"the newest one {adapted.value:.2f}: <b>{ratio.value:.3f}</b> times as many (95&nbsp;% interval "
        f"{ratio.low:.3f}&ndash;{ratio.high:.3f}, over prompts). Computed for chains of "
        f"{len(run.fresh.frozen[0].accepted)} drafts sampled at temperature {run.fresh.temperature:g}.</p>"
    )


def samples(name: str, result: Comparison) -> str:
    """State the result of a Kolmogorov-Smirnov test."""
    verdict = (
        "Chance alone explains a gap of this size, as expected: speculation affects when tokens are ready, not which."
        if result.is_by_chance
        else "Chance alone does not explain this gap. Investigate before trusting any speedup on this page."
    )
    gap = f"{result.distance:.3f}, p&nbsp;=&nbsp;{result.p_value:.2g}"
    return f"Kolmogorov-Smirnov distance of the {name}: {gap}. {verdict}"


def rewards(run: Run) -> str:
    """Summarize the rewards of both sides."""
    sides = [
        f"{side}: mean {sum(r.reward for r in rs) / len(rs):.3f}, {sum(r.correct for r in rs) / len(rs):.1%} correct"
        for side in ("on", "off")
        if (rs := responses(run, "on" if side == "on" else "off"))
    ]
    tested = samples("rewards", compare_rewards(run))
    caution = (
        "Both sides use the same prompts, which makes the test lenient; the engine's own tests compare "
        "distributions token by token."
    )
    return f"{'; '.join(sides)}. {tested} {caution}"


def lengths(run: Run) -> str:
    """Summarize the response lengths of both sides."""
    parts = []
    for side in ("on", "off"):
        tokens = sorted(response.tokens for response in responses(run, "on" if side == "on" else "off"))
        parts.append(
            f"{side}: median {tokens[len(tokens) // 2]}, 90th percentile {tokens[len(tokens) * 9 // 10]}, "
            f"longest {tokens[-1]} tokens"
        )
    return f"{'; '.join(parts)}. {samples('lengths', compare_lengths(run))}"


def _cold_start(run: Run) -> str:
    cold = [fact for fact in facts(run) if fact.is_cold]
    if not cold:
        return "<b>Cold start.</b> The run started with a trained drafter, so this page does not show a cold start."
    which = "the first step" if len(cold) == 1 else f"the first {len(cold)} steps"
    first = figures(run).get("first_swap_minute")
    when = f" The first drafter was swapped in {first.value:.1f} minutes after the start of the run." if first else ""
    return (
        f"<b>Cold start.</b> The run begins without a drafter, so {which} used drafts from sibling responses only, and "
        f"ran on one side only: a comparison would have delayed the first drafter.{when}"
    )


def _lent_time(run: Run) -> str:
    lent_s = worker_seconds(run, lending=True).get("training", 0.0)
    borrowed_s = worker_seconds(run, lending=False).get("training", 0.0)
    off = "no time" if borrowed_s < 0.05 else f"{borrowed_s:.1f} worker-seconds"
    return (
        f"<b>Lent idle time.</b> {training(run)} The drafter was trained for {lent_s:.0f} worker-seconds while lending "
        f"was enabled, and for {off} during the off rollouts. Training shares the machine with the rollouts still in "
        "flight; that cost is included in the on side's seconds."
    )


def _curriculum(run: Run) -> str:
    first, last = run.steps[0], run.steps[-1]
    found = figures(run)
    accepted = [found[name].value for name in ("accept_length_first", "accept_length_last") if name in found]
    change = " Accept length changed from {:.2f} to {:.2f} between the first and the last step with a drafter."
    drafter = change.format(*accepted) if accepted else ""
    if first.mix == last.mix:
        mix = "The mix of problems did not change." if run.has_mix else "Every step has new prompts of the same kind."
        return f"<b>Prompts.</b> {mix}{drafter}"
    tokens = [median(response.tokens for response in step.side("on").responses) for step in (first, last)]
    return (
        f"<b>Prompt shift.</b> The problems change from {mean_count(first):.1f} to {mean_count(last):.1f} numbers "
        f"on average (median response {tokens[0]:.0f} to {tokens[1]:.0f} tokens), so the drafter has to adapt.{drafter}"
    )


def _learning(run: Run) -> str:
    first, last = run.steps[0], run.steps[-1]
    change = f"from {first.side('on').accuracy:.0%} to {last.side('on').accuracy:.0%}"
    why = "random variation between the steps' problems" if first.mix == last.mix else "the change of problems"
    return (
        f"<b>Reinforcement learning itself</b> hardly changes a policy in so few steps ({len(run.steps)}). Accuracy "
        f"changed {change}, mostly due to {why}: read that plot as a check that training uses real rewards, not as a "
        "learning result. The speedups come from speculation, not from a policy that learned shorter responses."
    )
