"""
Acceptance and learning of drafters for policies of 7B and more, if no run determines them. Pure.

Published accept lengths refer to whole chains or trees. `published.accept_lengths` converts them to this model's
parameters, and has the learning curve that `ACCEPT_START` and `LEARN_HALF_TOKENS` are fitted to.
"""

from tlt_simulator.costs.figure import CostFigure, Source

ACCEPT_START = CostFigure(
    value=0.37,
    low=0.10,
    high=0.55,
    source=Source.ASSUMED,
    of="the curve of a drafter that was made anew for SmolLM2-135M (docs/drafters.md); the demo's fit is 0.23 (0.10 to "
    "0.71)",
)
ACCEPT_PUBLIC = CostFigure(
    value=0.70,
    low=0.62,
    high=0.82,
    source=Source.PUBLISHED,
    of="EAGLE and EAGLE-3 for 8B policies and gpt-oss on eight data sets: 0.65 to 0.82; trees of the TLT paper before "
    "adaptation: 4.59 tokens (arXiv 2511.16665)",
)
ACCEPT_BEST = CostFigure(
    value=0.88,
    low=0.80,
    high=0.94,
    source=Source.PUBLISHED,
    of="trees of depth 8 with 48 tokens after adaptation: 6.53 tokens, 1.42 times those before it (arXiv 2511.16665)",
)
ACCEPT_DECAY = CostFigure(
    value=0.88,
    low=0.80,
    high=0.95,
    source=Source.PUBLISHED,
    of="chains of 12 drafters (published.accept_lengths), each of which alone gives 0.79 to 0.93",
)
NGRAM_ACCEPT = CostFigure(
    value=0.20,
    low=0.08,
    high=0.35,
    source=Source.ASSUMED,
    of="between prompts without siblings and the demo's groups of 8, where n-grams of 5 keep 1.8 tokens "
    "(docs/results/cpu.md)",
)
NGRAM_ALONE_ACCEPT = CostFigure(
    value=0.10,
    low=0.05,
    high=0.31,
    source=Source.PUBLISHED,
    of="1,410 responses of Llama 3.1 8B: mathematics 0.08, chat and summaries 0.13, code edits 0.31 (arXiv 2601.11580)",
)
NGRAM_NEXT_ACCEPT = CostFigure(
    value=0.72,
    low=0.55,
    high=0.92,
    source=Source.PUBLISHED,
    of="the same responses: mathematics 0.60, chat and summaries 0.75 to 0.82, code edits 0.92 (arXiv 2601.11580)",
)
LEARN_HALF_TOKENS = CostFigure(
    value=700_000,
    low=150_000,
    high=10_000_000,
    source=Source.ASSUMED,
    of="the same curve as accept_start; 5,000 dialogues of another policy, about 5 million tokens, gave 2.02 tokens "
    "per round (huggingface.co/Ichigec/a1-agents-eagle3-speculator)",
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
    of="15 to 79 ms on a CPU (docs/results/services.md); a micro-step takes at most 80 ms",
)
