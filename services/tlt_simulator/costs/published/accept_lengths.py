"""
Published accept lengths of drafters in several arms, to which acceptance by place and in trees is fitted. Pure.

Each series is of one drafter on one kind of prompt, so that its arms differ in their shapes only. `fitted_decay` and
`fitted_narrowing` are what `learning` uses; a test compares.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tlt_common.domain.arm import Arm, arm_named
from tlt_simulator.costs.acceptance import chain_chances, tree_chances


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptLengths:
    """Accept lengths of one drafter."""

    drafter: str
    chains: dict[int, float]
    """Tokens per round by the number of drafts."""
    trees: tuple[tuple[str, float], ...] = ()
    """Arms and tokens per round."""
    source: str


def _by_place(*survival: float) -> dict[int, float]:
    """Return accept lengths from the shares of rounds in which the first, second, ... draft was accepted."""
    return {drafts: 1.0 + sum(survival[:drafts]) for drafts in range(1, len(survival) + 1)}


EAGLE_VLLM: Final = "https://github.com/vllm-project/vllm/issues/20780 (MT-bench)"
EAGLE_SGLANG: Final = "https://github.com/sgl-project/sglang/pull/4247 (MT-bench, trees)"
SPECULATORS: Final = "https://github.com/vllm-project/speculators/issues/563 (Qwen3-8B, temperature 0.6)"
SPECDECODE: Final = (
    "https://github.com/SpecDecode-Bench/simulator (arXiv 2601.11580): drafts at each token of 1,410 responses of "
    "Llama 3.1 8B, walked round by round"
)
PARALLEL: Final = "https://github.com/vllm-project/vllm/pull/32628 (gpt-oss-120b)"
SPECFORGE: Final = "https://github.com/sgl-project/SpecForge/issues/339 (MT-bench)"
ANGELSLIM: Final = "https://github.com/Tencent/AngelSlim/issues/163"

ACCEPT_LENGTHS: Final = (
    AcceptLengths(
        drafter="EAGLE-3, Llama 3.1 8B",
        chains={2: 2.36, 3: 2.79, 4: 3.08, 5: 3.32, 6: 3.46, 7: 3.54},
        trees=(("tree-5x8-64", 4.68), ("tree-8x8-64", 5.39)),
        source=f"{EAGLE_VLLM}; {EAGLE_SGLANG}",
    ),
    AcceptLengths(
        drafter="EAGLE, Llama 3.1 8B",
        chains={2: 2.10, 3: 2.29, 4: 2.39, 5: 2.43, 6: 2.45, 7: 2.47},
        trees=(("tree-8x8-64", 3.76),),
        source=f"{EAGLE_VLLM}; {EAGLE_SGLANG}",
    ),
    AcceptLengths(
        drafter="EAGLE-3, Qwen3-8B, code",
        chains={1: 1.81, 2: 2.40, 3: 2.80, 4: 3.06, 5: 3.22, 6: 3.30, 7: 3.33},
        source=SPECULATORS,
    ),
    AcceptLengths(
        drafter="EAGLE-3, Qwen3-8B, mathematics",
        chains={1: 1.83, 2: 2.50, 3: 2.95, 4: 3.28, 5: 3.45, 6: 3.61, 7: 3.68},
        source=SPECULATORS,
    ),
    AcceptLengths(
        drafter="EAGLE-3, Qwen3-8B, summaries",
        chains={1: 1.69, 2: 2.11, 3: 2.35, 4: 2.46, 5: 2.50, 6: 2.52, 7: 2.52},
        source=SPECULATORS,
    ),
    AcceptLengths(drafter="EAGLE, CNN/DailyMail", chains={1: 1.673, 3: 2.325, 5: 2.573}, source=SPECDECODE),
    AcceptLengths(drafter="EAGLE, GSM8K", chains={1: 1.693, 3: 2.379, 5: 2.651}, source=SPECDECODE),
    AcceptLengths(drafter="EAGLE, InstructCoder", chains={1: 1.679, 3: 2.343, 5: 2.619}, source=SPECDECODE),
    AcceptLengths(drafter="EAGLE, ShareGPT", chains={1: 1.660, 3: 2.252, 5: 2.476}, source=SPECDECODE),
    AcceptLengths(
        drafter="EAGLE-3, gpt-oss-120b, MT-bench",
        chains=_by_place(0.63, 0.38, 0.23, 0.14, 0.09, 0.05, 0.03, 0.02),
        source=PARALLEL,
    ),
    AcceptLengths(
        drafter="EAGLE-3, gpt-oss-120b, HumanEval",
        chains=_by_place(0.71, 0.49, 0.32, 0.21, 0.14, 0.09, 0.05, 0.03),
        source=PARALLEL,
    ),
    AcceptLengths(
        drafter="the demo's", chains={3: 3.79, 7: 6.77, 11: 9.04, 15: 9.94}, source="docs/results/cpu.md, longer chains"
    ),
    AcceptLengths(
        drafter="EAGLE-3, Qwen3-30B-A3B",
        chains={3: 1.86},
        trees=(
            ("tree-3x3-4", 1.99),
            ("tree-3x3-8", 2.20),
            ("tree-6x4-12", 2.42),
            ("tree-7x4-16", 2.52),
            ("tree-8x8-60", 3.20),
        ),
        source=SPECFORGE,
    ),
    AcceptLengths(
        drafter="EAGLE-3, Qwen3-30B-A3B, another",
        chains={},
        trees=(
            ("tree-3x3-4", 2.017),
            ("tree-3x2-8", 2.216),
            ("tree-4x4-16", 2.542),
            ("tree-7x10-64", 3.034),
        ),
        source=ANGELSLIM,
    ),
)
"""All that was found of one drafter in several arms."""

LEARNING_CURVE: Final = {70e3: 1.62, 153e3: 1.77, 319e3: 1.92, 509e3: 2.05, 704e3: 2.20, 958e3: 2.32}
"""Tokens per round of a chain of three by the tokens that a new drafter for SmolLM2-135M learned from
(docs/drafters.md). Of public drafters only the end of training is published."""
NGRAM_LENGTHS: Final[dict[str, tuple[float, float]]] = {
    "CNN/DailyMail": (1.205, 1.377),
    "GSM8K": (1.109, 1.177),
    "InstructCoder": (1.509, 2.289),
    "ShareGPT": (1.236, 1.451),
}
"""Tokens per round of one and of five n-gram drafts from a response's own prompt and text (`SPECDECODE`)."""

QUALITIES: Final = tuple(0.30 + 0.005 * place for place in range(140))


def length(arm: Arm, quality: float, decay: float, narrowing: float) -> float:
    """Return the accept length of a learned arm."""
    chances = (
        chain_chances(quality, decay, arm.steps) if arm.topk == 1 else tree_chances(arm, quality, decay, narrowing)
    )
    total, survives = 1.0, 1.0
    for chance in chances:
        survives *= chance
        total += survives
    return total


def fitted_quality(rows: Sequence[tuple[Arm, float]], decay: float, narrowing: float) -> float:
    """Return the quality for which the arms of a drafter fit best."""
    return min(QUALITIES, key=lambda quality: sum(_squares(rows, quality, decay, narrowing)))


def fitted_decay(narrowing: float, decays: Sequence[float]) -> float:
    """Return the decay for which the chains fit best, each series with a quality of its own."""
    return min(decays, key=lambda decay: sum(_series_error(_chains(one), decay, narrowing) for one in ACCEPT_LENGTHS))


def fitted_narrowing(decay: float, narrowings: Sequence[float]) -> float:
    """Return the narrowing for which trees fit best, given the same drafter's chains where there are any."""

    def squares(narrowing: float) -> Iterator[float]:
        for one in ACCEPT_LENGTHS:
            for arm, tokens in tree_lengths(one, decay, narrowing):
                yield (tokens / dict(one.trees)[arm] - 1.0) ** 2

    return min(narrowings, key=lambda narrowing: sum(squares(narrowing)))


def tree_lengths(one: AcceptLengths, decay: float, narrowing: float) -> Iterator[tuple[str, float]]:
    """Yield each tree of a drafter and its tokens per round, given its chains or, without any, its trees."""
    trees = tuple((arm_named(name), tokens) for name, tokens in one.trees)
    if trees:
        quality = fitted_quality(_chains(one) or trees, decay, narrowing)
        for arm, _ in trees:
            yield arm.name, length(arm, quality, decay, narrowing)


def _chains(one: AcceptLengths) -> tuple[tuple[Arm, float], ...]:
    return tuple((arm_named(f"chain-{drafts}"), tokens) for drafts, tokens in one.chains.items())


def _series_error(rows: Sequence[tuple[Arm, float]], decay: float, narrowing: float) -> float:
    if not rows:
        return 0.0
    quality = fitted_quality(rows, decay, narrowing)
    return sum(_squares(rows, quality, decay, narrowing)) / len(rows)


def _squares(rows: Sequence[tuple[Arm, float]], quality: float, decay: float, narrowing: float) -> Iterator[float]:
    return ((length(arm, quality, decay, narrowing) / tokens - 1.0) ** 2 for arm, tokens in rows)


def fitted_curve(best: float, decay: float, halves: Sequence[float]) -> tuple[float, float]:
    """Return the first quality and the tokens to half of the way to `best` that fit `LEARNING_CURVE` best."""
    arm = arm_named("chain-3")
    seen = [(tokens, fitted_quality(((arm, kept),), decay, 1.0)) for tokens, kept in LEARNING_CURVE.items()]
    found = []
    for half in halves:
        # quality = start (1 - share) + best share, so that the best start is a ratio of sums.
        rows = [(half / (tokens + half), quality) for tokens, quality in seen]
        start = sum(left * (quality - best * (1.0 - left)) for left, quality in rows) / sum(left**2 for left, _ in rows)
        squares = sum((start * left + best * (1.0 - left) - quality) ** 2 for left, quality in rows)
        found.append((squares, start, half))
    _, start, half = min(found)
    return start, half
