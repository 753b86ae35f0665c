"""Durations of switches and learning, as means over a journal. Pure."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from random import Random
from typing import Final

from tlt_common.domain.fleet import WorkerState
from tlt_common.errors import ConfigError
from tlt_common.journal.coordinator_lines import LeaseChange, StateLine
from tlt_simulator.costs.figure import CostFigure, Source
from tlt_simulator.fit.recorded import RecordedRun
from tlt_simulator.fit.rounds import DRAWS, interval
from tlt_simulator.fit.steps import RecordedStep

LEAST_PREFILLED: Final = 256
"""Tokens below which prefills are not fitted."""
LEAST_SEEN: Final = 3
"""Switches of a kind below which the base's costs stand."""


def fitted_switches(run: RecordedRun, together: float, *, seed: int = 0) -> dict[str, CostFigure]:
    """
    Return the costs of switches, prefill and learning from a journal, under the names of `CostModel`.

    Args:
        run: The journal.
        together: Exponent of the number of trainers with which they learn faster together.
        seed: Seed of the resampling for intervals.

    Raises:
        ConfigError: Too few tokens were prefilled; the message states how many more are needed.
    """
    tokens = sum(line.tokens for line in run.prefills)
    if tokens < LEAST_PREFILLED:
        raise ConfigError(
            f"prefill_token_s cannot be fitted: {tokens} tokens were prefilled; needed: {LEAST_PREFILLED - tokens} "
            "more",
            field="prefill_token_s",
        )
    found = {
        "prefill_token_s": ratio([(line.seconds, line.tokens) for line in run.prefills], f"{tokens:,} tokens", seed)
    }
    for name, seen, what in (
        ("lease_start_s", list(_starts(run)), "leases"),
        ("lease_stop_s", list(_stops(run)), "leases"),
        ("update_s", [line.at - line.began for line in run.updates], "updates"),
        ("drafter_load_s", [line.load_s for line in run.trained if line.load_s > 0.0], "minutes"),
    ):
        if len(seen) >= LEAST_SEEN:
            found[name] = ratio([(one, 1.0) for one in seen], f"{len(seen)} {what}", seed)
    rates = list(_learned(run, together))
    if len(rates) >= LEAST_SEEN:
        found["learn_tokens_s"] = ratio(rates, f"{len(rates)} drafters", seed)
    return found


def fitted_learning_phase(steps: Sequence[RecordedStep], *, seed: int = 0) -> tuple[CostFigure, CostFigure]:
    """
    Return the RL trainer's learning time per step, and per token of it.

    Raises:
        ConfigError: No step's learning ended.
    """
    seen = {step.number: (step.learn_s, float(step.tokens)) for step in steps if step.learn_s is not None}
    pairs = [(learn_s, tokens) for learn_s, tokens in seen.values() if learn_s is not None]
    if not pairs:
        raise ConfigError(
            "learn_s cannot be fitted: no step ended with an update of the weights; needed: 1 more", field="learn_s"
        )
    of = f"{len(pairs)} steps"
    return (
        _bootstrapped(pairs, lambda drawn: _line(drawn)[0], of, seed),
        _bootstrapped(pairs, lambda drawn: _line(drawn)[1], of, seed),
    )


def ratio(pairs: Sequence[tuple[float, float]], of: str, seed: int) -> CostFigure:
    """Return the ratio of two sums."""
    return _bootstrapped(pairs, lambda drawn: sum(a for a, _ in drawn) / sum(b for _, b in drawn), of, seed)


def states_of(run: RecordedRun) -> dict[str, list[tuple[float, float, WorkerState]]]:
    """Return each worker's states, as start, end and state."""
    lines = defaultdict[str, list[StateLine]](list)
    for line in run.states:
        lines[line.worker].append(line)
    return {
        worker: [
            *((one.at, other.at, one.state) for one, other in pairwise(ones)),
            (ones[-1].at, max(run.ended_s, ones[-1].at), ones[-1].state),
        ]
        for worker, ones in lines.items()
    }


def _line(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return a and b >= 0 with seconds = a + b tokens."""
    count = len(pairs)
    mean_s, mean = sum(s for s, _ in pairs) / count, sum(tokens for _, tokens in pairs) / count
    spread = sum((tokens - mean) ** 2 for _, tokens in pairs)
    slope = sum((s - mean_s) * (tokens - mean) for s, tokens in pairs) / spread if spread else 0.0
    slope = min(max(0.0, slope), mean_s / mean)
    return max(0.0, mean_s - slope * mean), slope


def _bootstrapped(
    pairs: Sequence[tuple[float, float]], of_pairs: Callable[[Sequence[tuple[float, float]]], float], of: str, seed: int
) -> CostFigure:
    chance, value = Random(seed), of_pairs(pairs)
    low, high = interval([of_pairs(chance.choices(pairs, k=len(pairs))) for _ in range(DRAWS)])
    return CostFigure(value=value, low=min(low, value), high=max(high, value), source=Source.FITTED, of=of)


def _starts(run: RecordedRun) -> Iterator[float]:
    """Yield the seconds from each lease to the training under it."""
    for lease in run.leases:
        if lease.change is LeaseChange.GRANTED:
            later = (line for line in run.states if line.worker == lease.worker and line.at >= lease.at)
            for line in later:
                if line.state is WorkerState.TRAINING:
                    yield line.at - lease.at
                if line.state is not WorkerState.SWITCHING:
                    break


def _stops(run: RecordedRun) -> Iterator[float]:
    """Yield the switching times of workers after training."""
    for stays in states_of(run).values():
        for (_, _, before), (began, ended, state) in pairwise(stays):
            if before is WorkerState.TRAINING and state is WorkerState.SWITCHING:
                yield ended - began


def _learned(run: RecordedRun, together: float) -> Iterator[tuple[float, float]]:
    """Yield, for each drafter, the tokens learned since the previous one and the seconds, weighted by trainers."""
    data_s = min(line.at for line in run.responses)  # before, there is nothing to learn from
    turns = [
        turn
        for stays in states_of(run).values()
        for began, ended, state in stays
        if state is WorkerState.TRAINING and ended > data_s
        for turn in ((max(began, data_s), 1), (ended, -1))
    ]
    turns.sort()
    before_s, tokens, weighted_s, trainers = 0.0, 0, 0.0, 0
    place = 0
    for line in run.drafters:
        if not line.tokens:
            continue
        while place < len(turns) and turns[place][0] <= line.at:
            weighted_s += (turns[place][0] - before_s) * (trainers**together if trainers else 0.0)
            before_s, trainers = turns[place][0], trainers + turns[place][1]
            place += 1
        weighted_s += (line.at - before_s) * (trainers**together if trainers else 0.0)
        before_s = line.at
        if line.tokens > tokens and weighted_s > 0.0:
            yield float(line.tokens - tokens), weighted_s
            tokens, weighted_s = line.tokens, 0.0
