"""Verdicts on an engine's responses: goodness of fit per case, and errors of greedy tokens and log-probabilities."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from tests.engine import models
from tests.lossless import exact, goodness
from tests.lossless.cases import PLAIN_PHASE, PROMPT, SETTINGS, VOCABULARY
from tests.lossless.goodness import Fit
from tests.lossless.scenes import Answer, Drawn, PhaseResult

LEVEL = 1e-3
"""Probability that a correct engine fails a run, over all comparisons (Bonferroni)."""
ALL = "all settings"
OFF_WINDOW, LONG = "1-4 off", "long"
PLACES = 20
TIE = 1e-5
"""Logits closer than this are considered equal in float32: either token is correct."""

Tokens = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One comparison."""

    phase: str
    setting: str
    comparison: str
    """Window of tokens, and what they are compared with."""
    accept_length: float
    fit: Fit


def verdicts(target: Path, phases: dict[str, PhaseResult]) -> list[Verdict]:
    """Compare each phase with the exact distribution, per setting and combined, and with the plain phase."""
    model, plain = models.load(target), phases[PLAIN_PHASE.name].drawn
    masses, found = expected(model, plain), []
    for name, result in phases.items():
        for window in exact.WINDOWS:
            found += _with_all(name, f"{window} exact", fits(result.drawn, window, masses), result)
        if name != PLAIN_PHASE.name:
            found += _with_all(name, OFF_WINDOW, compared(result.drawn, plain), result)
        found.append(
            Verdict(phase=name, setting=ALL, comparison=LONG, accept_length=0.0, fit=long_fit(model, result.long))
        )
    return found


def expected(model: torch.nn.Module, settings: Iterable[str]) -> dict[str, dict[str, exact.Masses]]:
    """Return the masses of each setting's short responses, for each window."""
    logits = exact.next_logits(model, PROMPT)
    return {setting: exact.exact(logits, SETTINGS[setting]) for setting in settings}


def fits(drawn: dict[str, Drawn], window: str, masses: dict[str, dict[str, exact.Masses]]) -> dict[str, Fit]:
    """Compare one window of each setting's responses with its masses."""
    return {
        setting: goodness.fit(_count(samples, window), masses[setting][window]) for setting, samples in drawn.items()
    }


def compared(drawn: dict[str, Drawn], plain: dict[str, Drawn]) -> dict[str, Fit]:
    """Compare each setting's responses with those of plain decoding."""
    return {
        setting: goodness.compare(_count(samples, "1-4"), _count(plain[setting], "1-4"))
        for setting, samples in drawn.items()
    }


def _count(drawn: Drawn, window: str) -> goodness.Counts:
    return goodness.count(drawn.tokens[:, slice(*exact.WINDOWS[window])], VOCABULARY)


def _with_all(phase: str, comparison: str, fits: dict[str, Fit], result: PhaseResult) -> list[Verdict]:
    lengths = {setting: drawn.accept_length for setting, drawn in result.drawn.items()}
    lengths[ALL] = sum(lengths.values()) / len(lengths)
    return [
        Verdict(phase=phase, setting=setting, comparison=comparison, accept_length=lengths[setting], fit=each)
        for setting, each in {**fits, ALL: goodness.combined(list(fits.values()))}.items()
    ]


def long_fit(model: torch.nn.Module, answers: list[Answer]) -> Fit:
    """Compare the places of the long responses' tokens in their own distributions, in PLACES equal bins."""
    places = [
        exact.places(exact.filtered(logits, each.prompt.sampling), np.array(each.chunk.token_ids), seed)
        for seed, (each, logits) in enumerate(logits_of(model, answers))
    ]
    cells = np.floor(np.concatenate(places) * PLACES).astype(np.int64)
    masses = np.append(np.full(PLACES, 1 / PLACES), 0.0)  # the last bin is that of impossible tokens
    return goodness.fit(np.bincount(cells, minlength=PLACES + 1).astype(np.int64), masses)


@torch.no_grad()
def logits_of(model: torch.nn.Module, answers: Iterable[Answer]) -> list[tuple[Answer, exact.Logits]]:
    """Return transformers' logits [T, V] before each token of each response, from one pass over the whole text."""
    found = []
    by_length = sorted(answers, key=_length)
    for _, group in groupby(by_length, key=_length):
        same = list(group)
        ids = torch.tensor([each.prompt.token_ids + each.chunk.token_ids for each in same])
        for each, logits in zip(same, model(ids).logits, strict=True):
            found.append((each, logits[len(each.prompt.token_ids) - 1 : -1].numpy()))
    return found


def _length(answer: Answer) -> int:
    return len(answer.prompt.token_ids) + len(answer.chunk.token_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Greedy:
    """Greedy responses compared with transformers'."""

    tokens: int
    wrong: int
    """Tokens that differ from transformers' choice."""
    ties: int
    """How many of these have a logit within TIE of the choice's."""
    max_gap: float
    """Largest logit gap to transformers' choice."""
    accept_length: float
    """Tokens per request and round."""


def greedy(model: torch.nn.Module, answers: list[Answer]) -> Greedy:
    """Compare each token given the tokens before it: if none is wrong, whole responses equal transformers'."""
    behind = []
    for each, logits in logits_of(model, answers):
        chosen = np.take_along_axis(logits, np.array(each.chunk.token_ids)[:, None], 1)[:, 0]
        behind.append(logits.max(1) - chosen)
    gaps = np.concatenate(behind)
    stats = [each.chunk.stats for each in answers if each.chunk.stats]
    return Greedy(
        tokens=len(gaps),
        wrong=int((gaps > 0).sum()),
        ties=int(((gaps > 0) & (gaps < TIE)).sum()),
        max_gap=float(gaps.max()),
        accept_length=sum(each.completion_tokens for each in stats) / sum(each.rounds for each in stats),
    )


def logprob_error(model: torch.nn.Module, answers: list[Answer]) -> float:
    """Return the largest difference between a reported log-probability and transformers' at the temperature."""
    worst = 0.0
    for each, logits in logits_of(model, answers):
        scaled = torch.from_numpy(logits) / each.prompt.sampling.temperature
        chosen = torch.tensor(each.chunk.token_ids).unsqueeze(1)
        expected = torch.log_softmax(scaled, -1).gather(1, chosen).squeeze(1)
        worst = max(worst, float((expected - torch.tensor(each.chunk.logprobs)).abs().max()))
    return worst
