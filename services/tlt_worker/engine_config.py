"""The engine's configuration, `WorkerConfig.engine`: the one definition shared by worker, capacity planner, launch and
scheduler. Imports neither torch nor ray nor sglang.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import quote

from pydantic import Field, field_validator

from tlt_common.bandit import SPECULATE_BELOW_REQUESTS, BanditConfig
from tlt_common.config.base import Frozen
from tlt_common.domain.arm import DEFAULT_ARMS, MAX_STEPS, OFF, Arm, arms_named, block, chain, ngram, tree
from tlt_common.drafter.architecture import DrafterArchitecture

MIB = 2**20

CAPTURE_QUEUE_BYTES = 64 * MIB
"""
Maximum size of the queue of captured hidden states, including those in flight to the cache. A new frame that does not
fit is dropped and counted: rollouts never wait for capture. The queue bridges pauses of the cache; if the cache is
slower than capture, a longer one only fills later.
"""

CPU_ARMS: tuple[Arm, ...] = (*DEFAULT_ARMS, chain(15), ngram(5))
"""Default arms on a CPU. On the demo's task, n-grams double the speed of a group of 8 before the first drafter is
trained, and a good drafter's chains of 15 keep 12 tokens where those of 7 keep 7."""
CUDA_ARMS: tuple[Arm, ...] = (*DEFAULT_ARMS, tree(4, 4, 16), tree(6, 4, 32), tree(8, 8, 64), ngram(5))
"""Default arms on a GPU: 4 to 64 tokens to verify, as in the TLT paper, since a GPU has compute to spare at small batch
sizes. Chosen by `tlt simulate sweep` (docs/results/sweeps.md); not measured on a GPU."""


def block_arms(drafts: int) -> tuple[Arm, ...]:
    """
    Return the default arms for drafters of blocks of `drafts` tokens: a whole block and half a block.

    Drafting costs the same for both; verification does not.
    """
    whole = min(drafts, MAX_STEPS)
    halves = () if whole == 1 else (block(whole // 2),)
    return (OFF, *halves, block(whole), ngram(5))


def split_names(names: Any) -> Any:
    """Split names that are separated by commas. Validator of keys that hold several names."""
    return tuple(name.strip() for name in names.split(",") if name.strip()) if isinstance(names, str) else names


def stable_names(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """
    Return arms by their stable names; None stays None.

    Raises:
        ValueError: An arm is unknown or cannot run; the message lists the accepted arms.
    """
    return None if names is None else tuple(arm.name for arm in arms_named(names))


class EngineConfig(Frozen):
    """One SGLang engine: precision, memory and batch limits, and speculative decoding."""

    dtype: Literal["bfloat16", "float16", "float32"] | None = None
    """Data type of weights, activations and KV cache. Null: bfloat16, unless the device would emulate it: float32 on a
    CPU with neither AVX512-BF16 nor AMX, float16 on a GPU older than an A100. On a GPU, float32 is for tests: attention
    runs on Triton's kernels, with heads of at most 128 (256 on a B200), and everything else in torch."""
    max_running: int = Field(16, ge=1)
    """Maximum number of requests decoded concurrently; further requests queue in the engine."""
    context_length: int | None = Field(None, ge=2)
    """Maximum length of prompt and response together, in tokens. Null: the model's `max_position_embeddings`."""
    max_total_tokens: int | None = Field(None, ge=1)
    """KV cache size in tokens. Null: `max_running` full contexts on a CPU, what fits into `gpu_memory` on a GPU."""
    threads: int = Field(1, ge=1)
    """CPU threads for the engine's compute. On a CPU device, more than one pays off for large models only."""
    stall_s: float | None = Field(10.0, ge=0)
    """Seconds without progress after which an engine is killed; its requests continue on other workers. An engine makes
    no progress if requests run and no round ends, or if one of its processes is stopped. A round on a CPU may take as
    long as it computes; the first rounds on a GPU may take six times as long, and one in which something is compiled
    twelve times. Time without a core does not count. 0 or null never kills an engine, for example while debugging."""
    tensor_parallel: int = Field(1, ge=1)
    """Tensor-parallel size: number of GPUs, all on one node, that the model is sharded over."""
    gpu_memory: float | None = Field(None, gt=0, lt=1)
    """Fraction of each GPU's memory for weights and KV cache. Null: what CUDA graphs, attention, rounds, prompts and
    the spot trainer leave, as `tlt engine plan` prints."""
    graph_bytes: int | None = Field(None, ge=0)
    """Memory budget for CUDA graphs per GPU, in bytes. Graphs that save the least time per byte are dropped first.
    Null: as much as the plan has room for."""
    allow_unlisted: bool = False
    """Serve models whose architecture is not in the table of model families. Then nothing is known of them: their
    tensors are not checked, their memory is not planned (a GPU needs `gpu_memory`), and whether states are captured
    rightly, updates are complete and responses keep their distribution has not been tested."""
    releasable: bool = False
    """Let an RL trainer that shares the devices take their memory (`Client.release`, `/release_memory_occupation`,
    `/sleep`). Meanwhile, GPUs' weights of policy and drafter are copied to the host's memory; on a CPU the drafter's
    are copied to a temporary file, and the policy's are loaded again from theirs."""
    drafter: Path | None = None
    """Directory of the drafter to load at start. Null: none; learned arms are disabled until a drafter is published."""
    drafter_architecture: DrafterArchitecture | None = None
    """Architecture of learned drafters, `eagle`, `eagle3`, `block` or `mtp`; the spot trainer trains the same. `mtp` is
    the head that the model's checkpoint brings along, which drafts from the first request on. Null: that of `drafter`
    or `drafter_format`, else `mtp` if the checkpoint has a head that docs/models.md lists, else `eagle`."""
    drafter_format: Path | None = None
    """Directory with the config.json of a drafter: the engine runs drafters of that format, and the spot trainer trains
    them. For public drafters whose sizes are not the ones that the suite chooses. Null: that of `drafter`, else as the
    other keys say."""
    draft_vocabulary: int | None = Field(None, ge=1)
    """Maximum number of tokens that drafts are drawn from. EAGLE-3 drafters have a head over them. For all others,
    engines copy those rows of the target's head whose tokens responses use most, and choose them again as responses
    change: with a large vocabulary, the whole head takes most of a draft's time. The memory is reserved at start.
    Responses keep their distribution. Null: that of an EAGLE-3 `drafter`, else 32,000."""
    drafter_layers: tuple[int, ...] | None = None
    """Layers of the target that EAGLE-3 and block drafters read, numbered from 0 and excluding the last one: a list, or
    numbers separated by commas. Null: those of `drafter`, else a low, a middle and a high one, for targets of at least
    seven layers."""
    arms: tuple[str, ...] | None = None
    """Speculation arms the bandit chooses from: `off`, `chain-N` (N sampled draft tokens in sequence; `chain-N-top1`
    uses the drafter's most likely tokens instead), `tree-SxK-N` (S steps of K branches, N tokens verified), `block-N`
    (the first N tokens of a block drafter's block, which runs neither chains nor trees) and `ngram-N` (up to N
    retrieved tokens). A list, or names separated by commas. Null: the defaults for device and drafter, as printed by
    `tlt engine plan`; a GPU's were chosen by `tlt simulate sweep` (docs/results/sweeps.md). `off` alone disables
    speculation."""
    speculate_below_requests: int = Field(SPECULATE_BELOW_REQUESTS, ge=1)
    """Disable speculation at or above this many running requests. Chosen by `tlt simulate sweep`
    (docs/results/sweeps.md)."""
    group_below_requests: dict[int, int] = Field(default_factory=dict)
    """Limits by arm size: tokens verified per request -> disable arms of that size at or above this many running
    requests, for example {64: 3}. Sizes without a limit are allowed while a round verifies at most 256 tokens.
    Chosen by `tlt simulate sweep` (docs/results/sweeps.md)."""
    return_routed_experts: bool = False
    """Let requests ask which experts their tokens were routed to, for trainers that replay the routing. Mixtures of
    experts only. Takes host memory for each token of the KV cache and each rank: 4 bytes per layer and expert of a
    token, 1.5 KiB for Qwen3-30B-A3B. On a GPU, experts run on SGLang's Triton kernels: its others do not tell what they
    chose."""
    trace: Path | None = None
    """File to which every decoding round is recorded, for `tlt bench tuner --trace`. Each worker adds a dash and its id
    to the name, before the suffix; the file and its predecessor, with .1 at the end, take at most 64 MiB. Null: no
    trace."""

    _split = field_validator("arms", "drafter_layers", mode="before")(split_names)
    _known = field_validator("arms")(stable_names)

    def at_worker(self, worker_id: str) -> Self:
        """Return the configuration of one worker's engine, which has its own trace file."""
        if self.trace is None or self.trace.is_dir():  # a directory is refused by its own name
            return self
        own = self.trace.with_stem(f"{self.trace.stem}-{quote(worker_id, safe='')}")
        return self.model_copy(update={"trace": own})

    @property
    def bandit(self) -> BanditConfig:
        """Configuration of the bandit."""
        return BanditConfig(
            speculate_below_requests=self.speculate_below_requests,
            group_below_requests=self.group_below_requests,
        )

    def arms_on(self, device: str) -> tuple[Arm, ...]:
        """Return the arms on a device (`cuda` or `cpu`): configured ones, or defaults for autoregressive drafters."""
        if self.arms is not None:
            return arms_named(self.arms)
        return CUDA_ARMS if device == "cuda" else CPU_ARMS

    def context_for(self, model: Mapping[str, Any]) -> int:
        """Return the maximum length of prompt and response for a model with this `config.json`."""
        return self.context_length or int(model["max_position_embeddings"])
