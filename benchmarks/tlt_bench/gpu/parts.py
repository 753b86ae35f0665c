"""All parts, the shortest first."""

from typing import Final

from tlt_bench.gpu.part import RESULT, GpuPart

TLT = ("-m", "tlt_common.cli")
PYTEST = ("-m", "pytest", "-p", "no:randomly", "-p", "no:cacheprovider")

PARTS: Final = (
    GpuPart(
        name="plan",
        shows="memory plan of this GPU for a model of 7B shape",
        command=(*TLT, "engine", "plan", "--model-shape", "qwen2.5-7b", "--json", RESULT),
        needs_gpu=True,
    ),
    GpuPart(
        name="sampling",
        shows="both forms of sampling draw the same tokens from the same inputs; time of the form with fixed shapes",
        command=("-m", "tlt_bench.gpu.sampling", RESULT),
    ),
    GpuPart(
        name="attention",
        shows="attention of spot training on samples of unlike length: against attention written out, and its speed",
        command=("-m", "tlt_bench.gpu.attention", RESULT),
    ),
    GpuPart(
        name="training",
        shows="spot training alone: tokens per second, the longest micro-step, a snapshot",
        command=("-m", "tlt_bench.gpu.training", RESULT),
    ),
    GpuPart(
        name="memory",
        shows="bytes of weights, drafter, KV cache and graphs against the plan; long prompts in batches up to 64",
        command=("-m", "tlt_bench.gpu.memory", RESULT),
        needs_gpu=True,
    ),
    GpuPart(
        name="truth",
        shows="greedy answers, captured states and logprobs under every arm; switches, swaps and updates in flight",
        command=(*PYTEST, "tests/engine/test_switching.py", "tests/engine/test_arms.py", "--loop", "plain"),
    ),
    GpuPart(
        name="failures",
        shows="requests that fail inside the scheduler end alone",
        command=(*PYTEST, "tests/engine/test_failures.py", "--loop", "plain"),
    ),
    GpuPart(
        name="lossless",
        shows="the lossless suite, short form",
        command=(*PYTEST, "tests/lossless", "--loop", "plain"),
    ),
    GpuPart(
        name="off",
        shows="off against SGLang without speculation",
        command=(*TLT, "bench", "engine", "--part", "off", "--quick", "--json", RESULT),
    ),
    GpuPart(
        name="speed",
        shows="every arm against off",
        command=(*TLT, "bench", "engine", "--part", "speed", "--quick", "--json", RESULT),
    ),
    GpuPart(
        name="switch",
        shows="rounds lost when speculation is switched",
        command=(*TLT, "bench", "switch", "--quick", "--json", RESULT),
    ),
    GpuPart(
        name="rollout",
        shows="the demo's run end to end, lending and spot training included",
        command=(*TLT, "bench", "rollout", "--quick", "--json", RESULT),
    ),
)
