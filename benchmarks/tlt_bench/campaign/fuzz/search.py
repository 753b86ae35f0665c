"""Feeds a target with inputs drawn by Hypothesis."""

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import HypothesisWarning

from tlt_bench.campaign.fuzz.memory import resident_bytes
from tlt_bench.campaign.fuzz.quiet import quiet
from tlt_bench.campaign.fuzz.target import Subject, Target

ROUND = 200
"""Inputs per search. A new search has another seed, so that one that ends at a harmful input does not end the run."""
MAX_HARMFUL = 5
"""Harmful inputs after which a target is not tried further."""
MAX_SHOWN = 2000
"""Characters of an input that are shown."""
MAX_GROWTH_BYTES = 64 * 2**20
"""Growth of resident memory, after the first half of the inputs, above which a target leaks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """Result for one target."""

    target: str
    tried: int
    harm: tuple[str, ...]
    """One sentence for each harmful input, with the input, reduced."""
    grown_bytes: int = 0


def search(
    target: Target,
    count: int,
    *,
    first_seed: int,
    may_go_on: Callable[[], bool] = lambda: True,
    inputs_per_round: int = ROUND,
) -> Searched:
    """
    Feed a target with `count` inputs, or fewer, but at least one round, once `may_go_on` returns False.

    Raises:
        TltError: The target could not be prepared.
    """
    harm: list[str] = []
    kinds: set[str] = set()
    tried = rounds = failed = middle_bytes = 0
    with quiet(), tempfile.TemporaryDirectory(prefix="tlt-fuzz-") as directory, target.open(Path(directory)) as subject:
        while tried < count and failed < MAX_HARMFUL and (not rounds or may_go_on()):
            wanted = min(inputs_per_round, count - tried)
            fed = _Round(subject, wanted, first_seed + rounds)
            fed.run()
            tried, rounds = tried + fed.tried, rounds + 1
            failed += bool(fed.harm)
            if fed.harm and fed.kind not in kinds:
                kinds.add(fed.kind)
                harm.append(f"{target.name}: {fed.harm}")
            if not middle_bytes and tried >= count / 2:
                middle_bytes = resident_bytes()
        grown_bytes = resident_bytes() - middle_bytes if middle_bytes else 0
    if grown_bytes > MAX_GROWTH_BYTES:
        harm.append(
            f"{target.name}: resident memory grew by {grown_bytes >> 20} MiB in the last half of {tried} inputs"
        )
    return Searched(target=target.name, tried=tried, harm=tuple(harm), grown_bytes=grown_bytes)


class _Round:
    def __init__(self, subject: Subject, count: int, round_seed: int) -> None:
        self._subject = subject
        self._count = count
        self._seed = round_seed
        self._last: Any = None
        self.tried = 0
        self.harm = ""
        self.kind = ""
        """What is harmed, without the input, so that each kind is reported once."""

    def run(self) -> None:
        options = settings(
            max_examples=self._count,
            database=None,
            deadline=None,
            derandomize=False,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
            print_blob=False,
            report_multiple_bugs=False,
        )
        attempt = seed(self._seed)(options(given(self._subject.inputs)(self._attempt)))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", HypothesisWarning)  # of the size of inputs
                attempt()
        except Exception as error:  # noqa: BLE001 - an exception of any type is what is searched for
            # Hypothesis repeats the smallest harmful input last.
            shown = self._subject.show(self._last)
            more = f"... ({len(shown)} characters)" if len(shown) > MAX_SHOWN else ""
            self.kind = _described(error)
            self.harm = f"{self.kind}; seed {self._seed}; input: {shown[:MAX_SHOWN]}{more}"
        self.tried = max(self.tried, 1)

    def _attempt(self, value: Any) -> None:
        self.tried += 1
        self._last = value
        self._subject.feed(value)


def _described(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):  # Hypothesis' when an input does not do harm every time
        return f"not every time: {_described(error.exceptions[0])}"
    return f"{type(error).__name__}: {error}"
