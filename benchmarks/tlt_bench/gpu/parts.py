"""All parts, in the order in which they run: correctness before timings."""

from typing import Final

from tlt_bench.gpu.part import KEPT, MODELS, RESULT, GpuPart
from tlt_local.models.published import SMOLLM2

TLT: Final = ("-m", "tlt_common.cli")
PYTEST: Final = ("-m", "pytest", "-p", "no:randomly", "-p", "no:cacheprovider")
WRITTEN: Final = ("models",)


def _own(module: str, *more: str) -> tuple[str, ...]:
    return ("-m", f"tlt_bench.gpu.{module}", RESULT, *more)


def _random(name: str, drafter: str = "drafter") -> tuple[str, str]:
    """Return the directories of a random model and its drafter."""
    return f"{MODELS}/{name}/model", f"{MODELS}/{name}/{drafter}"


def _timed(command: str, *more: str, drafter: str = "drafter") -> tuple[str, ...]:
    """Return a benchmark of the 7B shape. Its drafts are never accepted, so acceptance is simulated."""
    model, draft = _random("7b", drafter)
    options = ("--model", model, "--drafter", draft, "--accept-length", "3", "--json", RESULT)
    return (*TLT, "bench", command, *more, *options)


PARTS: Final = (
    GpuPart(
        name="plan",
        shows="memory plan of this GPU for a model of 7B shape",
        command=(*TLT, "engine", "plan", "--model-shape", "qwen2.5-7b", "--json", RESULT),
        needs_gpu=True,
    ),
    GpuPart(
        name="models",
        shows="models of 0.5B, 7B and 30B-A3B shape with random weights, which the other parts share",
        command=_own("models", MODELS),
    ),
    GpuPart(
        name="sampling",
        shows="both forms of sampling draw the same tokens from the same inputs; time of the form with fixed shapes",
        command=_own("sampling"),
    ),
    GpuPart(
        name="attention",
        shows="attention of spot training on samples of unlike length: against attention written out, and its speed",
        command=_own("attention"),
    ),
    GpuPart(
        name="truth",
        shows="in bfloat16: captured states and logprobs under arms in turn, also while weights and drafter are "
        "replaced, against a recomputation in float32",
        command=_own("truth"),
    ),
    GpuPart(
        name="arms",
        shows="in float32: greedy answers and logprobs under every arm; switches, swaps and updates in flight",
        command=(*PYTEST, "tests/engine/test_switching.py", "tests/engine/test_arms.py", "--loop", "plain"),
    ),
    GpuPart(
        name="failures",
        shows="requests that fail inside the scheduler end alone",
        command=(*PYTEST, "tests/engine/test_failures.py", "--loop", "plain"),
    ),
    GpuPart(
        name="lossless",
        shows="distributions under every arm: the lossless suite, short form",
        command=(*PYTEST, "tests/lossless", "--loop", "plain"),
    ),
    GpuPart(
        name="memory_7b",
        shows="bytes of weights, drafter, KV cache and graphs against the plan; long prompts in batches up to 64",
        command=_own("memory", *_random("7b")),
        needs_gpu=True,
        after=WRITTEN,
    ),
    GpuPart(
        name="memory_30b-a3b",
        shows="the same for a mixture of experts",
        command=_own("memory", *_random("30b-a3b")),
        needs_gpu=True,
        after=WRITTEN,
    ),
    GpuPart(
        name="release",
        shows="memory is released to an RL trainer and resumed, with the same responses and accepted drafts afterwards",
        command=_own("release", *_random("7b")),
        needs_gpu=True,
        after=WRITTEN,
    ),
    GpuPart(
        name="off",
        shows="off against SGLang without speculation, 7B shape",
        command=_timed("engine", "--part", "off", "--quick"),
        after=WRITTEN,
    ),
    GpuPart(
        name="headline",
        shows="the bandit against SGLang's own EAGLE in its best static setting, on a long-tailed trace: text and "
        "drafter of SmolLM2, rounds as with 7 billion parameters; off and arms against SGLang's, what capture costs",
        command=("-m", "tlt_bench.headline.measure", RESULT, f"{MODELS}/headline"),
        model=SMOLLM2,
    ),
    GpuPart(
        name="stock_eagle",
        shows="arms against SGLang's own EAGLE with the same drafter, 7B shape, equal accept lengths",
        command=_timed("engine", "--part", "stock", "--quick"),
        after=WRITTEN,
    ),
    GpuPart(
        name="stock_eagle3",
        shows="the same against SGLang's own EAGLE-3",
        command=_timed("engine", "--part", "stock", "--quick", drafter="drafter-eagle3"),
        after=WRITTEN,
    ),
    GpuPart(
        name="stock_demo",
        shows="arms against SGLang's own EAGLE with a trained drafter: the demo's policy, real acceptance",
        command=(*TLT, "bench", "engine", "--part", "stock", "--quick", "--json", RESULT),
    ),
    GpuPart(
        name="accept",
        shows="accept length of each arm with the demo's drafter",
        command=(*TLT, "bench", "engine", "--part", "grid", "--quick", "--json", RESULT),
    ),
    GpuPart(
        name="grid",
        shows="what a round of each arm costs over batch sizes, 7B shape, and the speed with these accept lengths",
        command=_timed("engine", "--part", "grid", "--accept-lengths", f"{KEPT}/accept.figures.json"),
        after=("models", "accept"),
    ),
    GpuPart(
        name="graphs",
        shows="memory of CUDA graphs: planned, every arm by itself, and one arm alone, 7B shape",
        command=_own("graphs", *_random("7b")),
        needs_gpu=True,
        after=WRITTEN,
    ),
    GpuPart(
        name="capture",
        shows="decoding with capture of hidden states on against off, 7B shape",
        command=_timed("capture"),
        after=WRITTEN,
    ),
    GpuPart(
        name="switch",
        shows="rounds lost when speculation is switched, 7B shape",
        command=_timed("switch", "--quick"),
        after=WRITTEN,
    ),
    GpuPart(
        name="rounds",
        shows="kernels, launches, waits and host time per round, by the profiler, 7B shape",
        command=_own("rounds", *_random("7b")),
        after=WRITTEN,
    ),
    GpuPart(
        name="speed",
        shows="every arm against off, the demo's policy",
        command=(*TLT, "bench", "engine", "--part", "speed", "--quick", "--json", RESULT),
    ),
    GpuPart(
        name="lease",
        shows="time to the first token of a request that finds its worker training, against one that finds it idle",
        command=(*TLT, "bench", "lease", "--part", "requests", "--json", RESULT),
    ),
    GpuPart(
        name="training",
        shows="spot training alone, 7B shape: tokens per second, the longest micro-step, a snapshot",
        command=_own("training"),
    ),
    GpuPart(
        name="rollout",
        shows="the demo's run end to end, lending and spot training included",
        command=(*TLT, "bench", "rollout", "--quick", "--json", RESULT),
    ),
)
