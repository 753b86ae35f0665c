"""
Published speedups of rounds that draft, over rounds without drafts on the same machine, in bfloat16. Pure.

Every second row, in the order of `ordered`, is held out: constants of `roofline` were chosen without it. The rule was
fixed before any error was looked at, and rows that are added are divided by it, too.

A row is used if its source, or another one of the same drafter, gives the tokens per round. Left out are rows with more
requests than a tenth of the questions asked, of which most of the time fewer run; throughputs that are mostly prefill;
quantised models; and drafters that are models of their own. Contexts are the prompt and half the response; where a
source does not give them, those of MT-bench or of the data set that it names.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

EAGLE_3_HEAD: Final = 32_000
"""Rows of the head of published EAGLE-3 drafters; those of EAGLE have the policy's whole vocabulary."""
SPECDECODE: Final = (
    "https://github.com/SpecDecode-Bench/simulator (arXiv 2601.11580; vLLM: the authors' fit to rounds of 1 to 64 "
    "requests, for a chain of three)"
)
TENSORRT: Final = (
    "https://github.com/NVIDIA/TensorRT-LLM/pull/16813 (assumed: a B200, 2.90 tokens per round, contexts of 750)"
)
EAGLE_3: Final = "https://arxiv.org/abs/2503.01840 (SGLang, chains; tokens per round are vLLM's for the same drafter)"
VLLM_K: Final = "https://github.com/vllm-project/vllm/issues/20780 (TPOT, MT-bench)"
VLLM_FIRST: Final = (
    "https://github.com/vllm-project/vllm/pull/16937 (MT-bench; tokens per round are those of issue 20780)"
)
VLLM_LOADING: Final = "https://github.com/vllm-project/vllm/pull/16035 (MT-bench; drafter without CUDA graphs)"
SGLANG: Final = "https://github.com/sgl-project/sglang/pull/4247 (MT-bench; plain rounds of the documentation)"
SGLANG_70B: Final = "https://github.com/sgl-project/sglang/pull/4716 (MT-bench)"
SPECFORGE: Final = "https://github.com/sgl-project/SpecForge/issues/339 (SGLang, MT-bench)"
ANGELSLIM: Final = "https://github.com/Tencent/AngelSlim/issues/163 (SGLang)"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSpeedup:
    """A speedup measured by others."""

    source: str
    engine: str
    """A key of `roofline.ENGINES`."""
    card: str
    gpus: int = 1
    model: str
    """A key of `PUBLISHED_SHAPES`."""
    head: int = EAGLE_3_HEAD
    """Rows of the drafter's head; 0 for the whole vocabulary."""
    batch: int
    context: int = 400
    """Context length of each request, in tokens."""
    arm: str
    length: float
    """Tokens per round."""
    speedup: float

    @property
    def name(self) -> str:
        """What was measured, without its source."""
        machine = self.card if self.gpus == 1 else f"{self.gpus} x {self.card}"
        drafter = "EAGLE-3" if self.head else "EAGLE"
        return f"{self.model}, {machine}, {self.engine}, {drafter}, {self.arm}, batch {self.batch}"


def _rows() -> Iterator[PublishedSpeedup]:
    for batch, speedup in {1: 1.83, 8: 1.76, 16: 1.69, 32: 1.58, 64: 1.43, 128: 1.26}.items():
        yield PublishedSpeedup(
            source=SPECDECODE, engine="vllm", card="h100", model="llama3-8b", batch=batch, context=300, arm="chain-3",
            length=2.39, speedup=speedup,
        )  # fmt: skip
    for batch, speedup in {1: 1.94, 4: 1.79, 16: 1.51, 64: 1.28}.items():
        yield PublishedSpeedup(
            source=TENSORRT, engine="tensorrt-llm", card="b200", model="qwen3-8b", batch=batch, context=750,
            arm="chain-3", length=2.90, speedup=speedup,
        )  # fmt: skip
    yield PublishedSpeedup(
        source=EAGLE_3, engine="sglang", card="h100", model="llama3-8b", batch=64, arm="chain-3", length=2.79,
        speedup=1.38,
    )  # fmt: skip
    for head, rows in {
        EAGLE_3_HEAD: ((2.36, 4.32), (2.79, 4.09), (3.08, 4.05), (3.32, 4.13), (3.46, 4.20), (3.54, 4.29)),
        0: ((2.10, 4.37), (2.29, 4.29), (2.39, 4.48), (2.43, 4.71), (2.45, 4.94), (2.47, 5.20)),
    }.items():
        for drafts, (length, tpot_ms) in enumerate(rows, start=2):
            yield PublishedSpeedup(
                source=VLLM_K, engine="vllm", card="h100", model="llama3-8b", head=head, batch=1,
                arm=f"chain-{drafts}", length=length, speedup=7.07 / tpot_ms,
            )  # fmt: skip
    for head, drafts, length, tokens_s in ((0, 2, 2.10, 201.69), (0, 4, 2.39, 198.0), (0, 7, 2.47, 169.92),
                                           (EAGLE_3_HEAD, 2, 2.36, 220.21)):  # fmt: skip
        yield PublishedSpeedup(
            source=VLLM_FIRST, engine="vllm", card="h100", model="llama3-8b", head=head, batch=1,
            arm=f"chain-{drafts}", length=length, speedup=tokens_s / 133.0,
        )  # fmt: skip
    for drafts, length, tokens_s in ((2, 1.89, 175.49), (4, 2.08, 165.65)):
        yield PublishedSpeedup(
            source=VLLM_LOADING, engine="vllm", card="h100", model="llama3-8b", head=0, batch=1, arm=f"chain-{drafts}",
            length=length, speedup=tokens_s / 128.64,
        )  # fmt: skip
    for head, arm, length, tokens_s in ((EAGLE_3_HEAD, "tree-5x8-64", 4.68, 361.70),
                                        (EAGLE_3_HEAD, "tree-8x8-64", 5.39, 378.57),
                                        (0, "tree-8x8-64", 3.76, 230.08)):  # fmt: skip
        yield PublishedSpeedup(
            source=SGLANG, engine="sglang", card="h100", model="llama3-8b", head=head, batch=1, arm=arm, length=length,
            speedup=tokens_s / 158.34,
        )  # fmt: skip
    yield PublishedSpeedup(
        source=SGLANG_70B, engine="sglang", card="h100", gpus=8, model="llama3-70b", batch=1, arm="tree-8x8-64",
        length=5.88, speedup=234.54 / 88.61,
    )  # fmt: skip
    for batch, plain, arm, tokens_s, length in (
        (1, 222.47, "chain-3", 159.78, 1.86),
        (1, 222.47, "tree-3x3-4", 207.62, 1.99),
        (1, 222.47, "tree-3x3-8", 172.99, 2.20),
        (1, 222.47, "tree-6x4-12", 171.54, 2.42),
        (1, 222.47, "tree-7x4-16", 191.90, 2.52),
        (1, 222.47, "tree-8x8-60", 177.50, 3.20),
    ):
        yield PublishedSpeedup(
            source=SPECFORGE, engine="sglang", card="h100", gpus=2, model="qwen3-30b-a3b", batch=batch, arm=arm,
            length=length, speedup=tokens_s / plain,
        )  # fmt: skip
    for batch, plain, arm, tokens_s, length in (
        (1, 218.89, "tree-3x3-4", 170.35, 2.017),
        (1, 218.89, "tree-3x2-8", 185.28, 2.216),
        (1, 218.89, "tree-4x4-16", 185.64, 2.542),
        (1, 218.89, "tree-7x10-64", 193.31, 3.034),
        (4, 507.49, "tree-4x4-16", 476.37, 2.556),
        (8, 677.14, "tree-4x4-16", 673.14, 2.578),
    ):
        yield PublishedSpeedup(
            source=ANGELSLIM, engine="sglang", card="h100", gpus=4, model="qwen3-30b-a3b", batch=batch, arm=arm,
            length=length, speedup=tokens_s / plain,
        )  # fmt: skip


def ordered() -> tuple[PublishedSpeedup, ...]:
    """Return all rows in the order by which every second one is held out: by source, model, batch, drafter and arm."""
    return tuple(sorted(_rows(), key=lambda row: (row.source, row.model, row.batch, row.head, row.arm)))


def held_out() -> tuple[PublishedSpeedup, ...]:
    """Return the rows that no constant was fitted to."""
    return ordered()[1::2]


def fitted() -> tuple[PublishedSpeedup, ...]:
    """Return the rows that constants were fitted to."""
    return ordered()[::2]
