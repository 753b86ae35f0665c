"""Cases to run: settings, arms and sizes."""

from dataclasses import dataclass, replace

from tlt_common.domain.arm import arm_named
from tlt_common.domain.prompt import SamplingParams

VOCABULARY = 32
PROMPT = (3, 7, 5, 9, 4, 12, 30)
"""Its next token has enough entropy at every setting for several responses to be likely."""
ANSWER_TOKENS = 6
"""More than the tokens compared: a chain is not truncated by the end of the response."""
LONG_TOKENS = 64

SEEDED = "T 1.0 seeds"
FILTERED = ("T 0.6 top-p 0.9", "T 1.5 all filters")

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
BLOCKS = ("off", "block-3", "ngram-5", "block-7")
"""Arms of an engine with block drafters."""
GOOD, RANDOM, WRONG = "good", "random", "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Arms run in turn, one round each, with one drafter."""

    name: str
    arms: tuple[str, ...]
    drafter: str = GOOD
    min_accept_length: float = 1.0
    """Minimum accept length; arms whose drafts are all rejected would prove little."""


def _drafting(arm: str) -> Phase:
    """Return the phase of one arm; drafts retrieved from siblings are accepted less often than the good drafter's."""
    return Phase(name=arm, arms=(arm,), min_accept_length=1.15 if arm.startswith("ngram") else 1.5)


PLAIN_PHASE = Phase(name="off", arms=("off",))
PHASES = (
    PLAIN_PHASE,
    *map(_drafting, ARMS[1:]),
    Phase(name="mixed", arms=ARMS, min_accept_length=1.3),
    Phase(name="mixed, random drafter", arms=ARMS, drafter=RANDOM),
    Phase(name="mixed, wrong drafter", arms=ARMS, drafter=WRONG),
)
ENGINE_ARMS = tuple(map(arm_named, ARMS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is run."""

    settings: tuple[str, ...]
    draws: int
    """Short responses per setting and phase."""
    long_answers: int
    """Responses of LONG_TOKENS tokens per phase, cycling through the settings."""
    greedy_prompts: int
    """Prompts sent once per drafter, and again during swaps, aborts and resumptions."""
    wrong_engines: tuple[str, ...]
    """Scenes with wrong acceptance to run."""
    limit_s: float
    """Timeout of a scene."""


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
