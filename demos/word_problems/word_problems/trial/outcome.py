"""What a trial found, and how it is printed."""

from collections.abc import Iterator

from countdown.record import Pairs, Rollout
from tlt_common.config.base import Frozen

SIDES = ("speculation off", "speculation on", "on, again")
TRAINER = """
from tlt_suite.trl import TltRollouts
trainer = GRPOTrainer(..., rollout_func=TltRollouts("127.0.0.1:7700"))  # TRL
""".strip()


class Learned(Frozen):
    """What spot trainers learned between the rollouts."""

    seconds: float
    states: int
    """Hidden states trained on, in all passes."""
    loss: float
    published: int
    """Newest version that they published; 0 if none."""
    held_out_top1: float
    """Share of held-out positions that the published version predicts; 0 if none was published."""
    ended: str
    """Why training ended."""


class Outcome(Frozen):
    """What a trial found."""

    model: str
    machine: str
    device: str
    dtype: str
    prompts: int
    samples: int
    max_new_tokens: int
    temperature: float
    drafter: str
    """Path of the drafter that the suite started with; empty if none."""
    start_up_s: float
    first_gain_s: float
    """Seconds from the command to the end of the first rollout with speculation."""
    rollouts: tuple[Rollout, ...]
    """Without speculation, with it, and with it again if there was time."""
    pairs: tuple[Pairs, ...]
    """Each rollout with speculation against the one without."""
    learned: Learned

    @property
    def speedup(self) -> float:
        """Tokens per second of the last rollout over those without speculation."""
        return rate(self.rollouts[-1]) / rate(self.rollouts[0])

    @property
    def tail_speedup(self) -> float:
        """Time until the longest tenth was done without speculation, over that of the last rollout."""
        return self.rollouts[0].tail_s / self.rollouts[-1].tail_s


def rate(rollout: Rollout) -> float:
    """Return the tokens per second of a rollout."""
    return rollout.tokens / rollout.seconds


def report(outcome: Outcome) -> str:
    """Return the result as text for a terminal of 80 columns."""
    return "\n".join([*_table(outcome), "", *_verdict(outcome), "", *_next(outcome)])


def _table(outcome: Outcome) -> Iterator[str]:
    rollouts = outcome.rollouts
    rows: list[tuple[str, list[str]]] = [
        ("", [*SIDES[: len(rollouts)]]),
        ("tokens per second", [f"{rate(rollout):.1f}" for rollout in rollouts]),
        ("seconds", [f"{rollout.seconds:.1f}" for rollout in rollouts]),
        ("until the longest tenth is done", [f"{rollout.tail_s:.1f} s" for rollout in rollouts]),
        ("tokens per round", [f"{rollout.accept_length:.2f}" for rollout in rollouts]),
        ("drafter", [f"v{rollout.drafter_version}" if rollout.drafter_version else "none" for rollout in rollouts]),
        ("identical responses", ["", *(f"{pairs.identical} of {pairs.responses}" for pairs in outcome.pairs)]),
    ]
    for name, cells in rows:
        yield f"{name:<31}" + "".join(f"{cell:>16}" for cell in cells)


def _verdict(outcome: Outcome) -> Iterator[str]:
    first, last = outcome.rollouts[0], outcome.rollouts[-1]
    lengths = sorted(response.tokens for response in first.responses)
    median = lengths[len(lengths) // 2]
    faster, tail = outcome.speedup, outcome.tail_speedup
    yield f"{faster:.2f} times the tokens per second; the tail is done {tail:.2f} times as fast."
    yield f"{outcome.prompts} prompts, {outcome.samples} responses to each,"
    yield f"of {lengths[0]} to {lengths[-1]} tokens (median {median}),"
    yield f"temperature {outcome.temperature:g}, {outcome.dtype}, on {outcome.machine}."
    if outcome.speedup <= 1:
        yield "No gain here: drafts cost more than they saved, or were accepted too rarely."
    yield from _losslessness(outcome)
    yield from _learning(outcome)
    if last.drafter_version == 0:
        yield "Drafts came from n-grams of the responses only."
    if len(outcome.rollouts) > 2:
        yield "In the first rollout with speculation, each engine also measured its arms for the first time."


def _losslessness(outcome: Outcome) -> Iterator[str]:
    pairs = outcome.pairs[-1]
    if not pairs.differences:
        yield "Same seeds, same responses, token for token: speculation is lossless."
        return
    gaps = [difference.gap for difference in pairs.differences if difference.gap is not None]
    largest = f"; where they part, the two tokens' logprobs differ by at most {max(gaps):.1e}" if gaps else ""
    yield (
        f"{len(pairs.differences)} of {pairs.responses} responses differ: arms round differently{largest}. "
        "The distribution is the same."
    )


def _learning(outcome: Outcome) -> Iterator[str]:
    learned = outcome.learned
    begun = f"It started with the drafter {outcome.drafter}. " if outcome.drafter else ""
    if learned.published:
        score = f", which predicts {learned.held_out_top1:.0%} of held-out tokens" if learned.held_out_top1 else ""
        found = f"drafter v{learned.published} was published{score}"
    elif outcome.drafter:
        found = "no better drafter was published"
    else:
        found = "no drafter is good enough yet to be served"
    yield (
        f"{begun}Idle workers trained for {learned.seconds:.0f} s on {learned.states} states "
        f"of these responses (loss {learned.loss:.2f}; {learned.ended}): {found}."
    )


def _next(outcome: Outcome) -> Iterator[str]:
    given = f" --drafter {outcome.drafter}" if outcome.drafter else ""
    yield f"tlt up --model {outcome.model}{given}"
    yield from TRAINER.splitlines()
