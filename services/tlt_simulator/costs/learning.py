"""
Acceptance and learning of drafters for policies of 7B and more, if no run determines them. Pure.

Published accept lengths refer to whole chains or trees. They are converted here to this model's parameters: the
probability that a sampled first draft is accepted, and the factor from one position to the next. With a factor of 0.98,
probabilities of 0.60, 0.78, 0.90 and 0.95 keep 2.4, 3.7, 5.2 and 6.0 tokens of a chain of 7.
"""

from tlt_simulator.costs.figure import CostFigure, Source

ACCEPT_START = CostFigure(
    value=0.78,
    low=0.60,
    high=0.85,
    source=Source.PUBLISHED,
    of="EAGLE-3 for Qwen3-8B at temperature 1, chain of 7: 3.91 tokens on AIME25, 4.77 on MATH500 (arXiv 2607.05147); "
    "trees of the TLT paper before adaptation: 4.59 (arXiv 2511.16665)",
)
ACCEPT_BEST = CostFigure(
    value=0.90,
    low=0.80,
    high=0.95,
    source=Source.PUBLISHED,
    of="trees of depth 8 with 48 tokens after adaptation: 6.53 tokens, 1.42 times those before it (arXiv 2511.16665); "
    "EAGLE-3 on GSM8K, chain of 7: 5.30 (arXiv 2607.05147)",
)
ACCEPT_DECAY = CostFigure(
    value=0.88,
    low=0.80,
    high=0.95,
    source=Source.PUBLISHED,
    of="chains of 12 drafters (published.accept_lengths), each of which alone gives 0.79 to 0.93",
)
NGRAM_ACCEPT = CostFigure(
    value=0.45,
    low=0.20,
    high=0.65,
    source=Source.ASSUMED,
    of="n-grams of 5 keep 1.8 tokens in groups of 8 of the demo's, first epoch (docs/results/cpu.md); nothing was "
    "published for reasoning models",
)
LEARN_HALF_TOKENS = CostFigure(
    value=500_000,
    low=100_000,
    high=5_000_000,
    source=Source.ASSUMED,
    of="the demo's drafter needs 100,000 from scratch; fastrl's README says that a few steps adapt one",
)
AGEING = CostFigure(
    value=0.002,
    low=0.0,
    high=0.01,
    source=Source.ASSUMED,
    of="fastrl's README: a well-trained drafter keeps its accept length over many RL steps; a frozen one still brought "
    "1.42x after 36 steps (marin #9079)",
)
LEASE_START_S = CostFigure(
    value=0.05, low=0.005, high=1.0, source=Source.ASSUMED, of="2 to 26 ms on a CPU (docs/results/services.md)"
)
LEASE_STOP_S = CostFigure(
    value=0.05,
    low=0.015,
    high=0.1,
    source=Source.ASSUMED,
    of="15 to 79 ms on a CPU (docs/results/services.md); a micro-step takes at most trainer.step_s, 80 ms",
)
