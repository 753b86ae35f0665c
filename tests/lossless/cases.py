"""What is played: settings, arms and sizes."""

from dataclasses import dataclass, replace

from tlt_common.domain.rollout import SamplingParams
from tlt_common.domain.strategy import arm_named

VOCABULARY = 32
PROMPT = (3, 7, 5, 9, 4, 12, 30)
"""Its next token is open enough at every setting for several answers to be likely."""
ANSWER_TOKENS = 6
"""Longer than the tokens looked at: a chain is not cut by the end of the answer."""
LONG_TOKENS = 64

SEEDED = "T 1.0 seeds"

_PLAIN = SamplingParams(max_new_tokens=ANSWER_TOKENS, ignore_eos=True)
_FILTERS = {
    "": _PLAIN,
    " top-p 0.9": replace(_PLAIN, top_p=0.9),
    " top-k 20": replace(_PLAIN, top_k=20),
    " min-p 0.1": replace(_PLAIN, min_p=0.1),
    " all filters": replace(_PLAIN, top_k=6, top_p=0.8, min_p=0.05),
}
SETTINGS = {
    f"T {temperature}{name}": replace(sampling, temperature=temperature)
    for temperature in (0.6, 1.0, 1.5)
    for name, sampling in _FILTERS.items()
} | {SEEDED: _PLAIN}

ARMS = ("off", "chain-3", "chain-7", "chain-3-top1", "tree-3x4-8", "ngram-5")
GOOD, RANDOM, WRONG = "good", "random", "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Arms run in turn, one round each, with one drafter."""

    name: str
    arms: tuple[str, ...]
    drafter: str = GOOD
    least_accept_length: float = 1.0
    """What is shown of arms that keep no drafts is little."""


def _drafting(arm: str) -> Phase:
    """Whoever looks up what its siblings said is right less often than the good drafter."""
    return Phase(name=arm, arms=(arm,), least_accept_length=1.15 if arm.startswith("ngram") else 1.5)


PLAIN_PHASE = Phase(name="off", arms=("off",))
PHASES = (
    PLAIN_PHASE,
    *map(_drafting, ARMS[1:]),
    Phase(name="mixed", arms=ARMS, least_accept_length=1.3),
    Phase(name="mixed, random drafter", arms=ARMS, drafter=RANDOM),
    Phase(name="mixed, wrong drafter", arms=ARMS, drafter=WRONG),
)
ENGINE_ARMS = tuple(map(arm_named, ARMS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is played."""

    settings: tuple[str, ...]
    draws: int
    """Short answers of each setting in each phase."""
    long_answers: int
    """Answers of LONG_TOKENS tokens in each phase, settings in turn."""
    greedy_prompts: int
    """Asked once for each drafter, and once more under swaps, aborts and resumptions."""
    wrong_engines: tuple[str, ...]
    """Scenes with wrong acceptance that are played."""
    limit_s: float
    """A scene that lasts longer hangs."""


SIZES = {
    "short": Size(
        settings=("T 1.0", "T 0.6 top-p 0.9", "T 1.5 top-k 20", "T 1.0 min-p 0.1", "T 1.5 all filters", SEEDED),
        draws=800,
        long_answers=50,
        greedy_prompts=40,
        wrong_engines=("broken",),
        limit_s=1200.0,
    ),
    "middle": Size(
        settings=tuple(SETTINGS),
        draws=700,
        long_answers=100,
        greedy_prompts=200,
        wrong_engines=("unpatched",),
        limit_s=2400.0,
    ),
    "long": Size(
        settings=tuple(SETTINGS),
        draws=2000,
        long_answers=300,
        greedy_prompts=200,
        wrong_engines=("broken", "unpatched"),
        limit_s=4800.0,
    ),
}
