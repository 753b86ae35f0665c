"""
Memory of attention backends, by the formulas of SGLang 0.5.23 and FlashInfer. Pure.

A backend allocates memory when it is built (workspaces), for its largest captured batch (tables), and per graph. The
target's backend belongs to the verify runner, those of the drafter to the other two.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tlt_common.domain.arm import OFF, Arm
from tlt_worker.capacity.attention import Attention
from tlt_worker.capacity.graphs.runner import Runner, Stage, runners_of
from tlt_worker.capacity.shape import ModelShape

MIB = 2**20
INDEX, INDEX_LONG, MASK = 4, 8, 1

WRAPPER_BYTES = 8 * MIB
"""FlashInfer's integer workspace of one wrapper; as much pinned memory on the host."""
QWEN_WORKSPACE, WORKSPACE = 512 * MIB, 384 * MIB
"""FlashInfer's float workspace for Qwen models and for others."""
TRTLLM_WORKSPACE = 512 * MIB
TRTLLM_PAGE = 64
TRITON_SPLITS = 8
"""`triton_attention_num_kv_splits`: partial results per token and head, float32."""


class AttentionCosts(Protocol):
    """Counts the bytes of one kind of backend, per rank."""

    def process(self) -> int:
        """Return the bytes that a process allocates once for all its backends."""
        ...

    def built(self, runner: Runner) -> int:
        """Return the bytes that a runner's backends allocate before anything is captured."""
        ...

    def tables(self, runner: Runner, batch: int) -> int:
        """Return the bytes of tables, sized by the largest captured batch."""
        ...

    def graph(self, runner: Runner) -> int:
        """Return the bytes of one additional graph."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OneTable:
    """A table of KV indices per captured pass, the minimum that every backend allocates."""

    context_length: int

    def process(self) -> int:
        return 0

    def built(self, runner: Runner) -> int:
        del runner
        return 0

    def tables(self, runner: Runner, batch: int) -> int:
        table = batch * self.context_length * INDEX * (2 if runner.is_tree else 1)
        return table * (runner.steps - 1) if runner.stage is Stage.DRAFT else table

    def graph(self, runner: Runner) -> int:
        del runner
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashInfer(OneTable):
    """`FlashInferAttnBackend`: a workspace per target backend, four wrappers per backend, one more per graph."""

    workspace: int

    def process(self) -> int:
        return self.workspace

    def built(self, runner: Runner) -> int:
        if runner.stage is Stage.DRAFT:
            return (runner.steps - 1) * 2 * WRAPPER_BYTES
        return 4 * WRAPPER_BYTES + (self.workspace if runner.stage is Stage.VERIFY else 0)

    def tables(self, runner: Runner, batch: int) -> int:
        if runner.stage is Stage.DRAFT:
            return runner.steps * batch * runner.topk * self.context_length * INDEX
        return batch * runner.draft_tokens * self.context_length * (INDEX + MASK)

    def graph(self, runner: Runner) -> int:
        return WRAPPER_BYTES * (runner.steps - 1 if runner.stage is Stage.DRAFT else 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashAttention(OneTable):
    """`FlashAttentionBackend`: page tables for every mode it may be captured in, and for trees a mask. No workspace."""

    def tables(self, runner: Runner, batch: int) -> int:
        pages = 6 if runner.is_tree else 4
        one = batch * self.context_length * INDEX * pages + 3 * self.context_length * INDEX_LONG
        if runner.stage is Stage.DRAFT:
            return (runner.steps - 1) * one
        nodes = runner.draft_tokens
        expanded = batch * nodes * nodes * INDEX if runner.is_tree else 0
        masked = runner.is_tree and runner.stage is Stage.VERIFY
        return one + expanded + (batch * nodes * (self.context_length + nodes) * MASK if masked else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrtllmMha(OneTable):
    """`TRTLLMHAAttnBackend`: FlashInfer's wrappers, one workspace per process, tables of pages of 64 tokens."""

    workspace: int

    def process(self) -> int:
        return self.workspace + TRTLLM_WORKSPACE

    def built(self, runner: Runner) -> int:
        return (runner.steps - 1) * 2 * WRAPPER_BYTES if runner.stage is Stage.DRAFT else 4 * WRAPPER_BYTES

    def tables(self, runner: Runner, batch: int) -> int:
        one = 4 * batch * -(-self.context_length // TRTLLM_PAGE) * INDEX
        return one * (runner.steps - 1) if runner.stage is Stage.DRAFT else one


@dataclass(frozen=True, slots=True, kw_only=True)
class Triton(OneTable):
    """`TritonAttnBackend`: KV indices and partial results per token; for verification also a mask."""

    heads: int
    """Attention heads of one rank."""
    head_dim: int

    def tables(self, runner: Runner, batch: int) -> int:
        rows = batch * (runner.topk if runner.stage is Stage.DRAFT else runner.draft_tokens)
        one = rows * (self.heads * TRITON_SPLITS * (self.head_dim + 1) * INDEX + INDEX)
        if runner.stage is Stage.DRAFT:  # a table for all steps, partial results for each
            steps = runner.steps - 1
            return steps * one + runner.steps * rows * self.context_length * INDEX_LONG
        masked = batch * runner.draft_tokens * (self.context_length + runner.draft_tokens) * MASK
        return one + rows * self.context_length * INDEX_LONG + (masked if runner.stage is Stage.VERIFY else 0)


def attention_costs(
    attention: Attention, shape: ModelShape, context_length: int, tensor_parallel: int = 1
) -> AttentionCosts:
    """Return the cost formulas of a backend."""
    workspace = QWEN_WORKSPACE if shape.is_qwen else WORKSPACE
    match attention:
        case Attention.FLASHINFER:
            return FlashInfer(context_length=context_length, workspace=workspace)
        case Attention.FA3:
            return FlashAttention(context_length=context_length)
        case Attention.TRTLLM:
            return TrtllmMha(context_length=context_length, workspace=workspace)
        case Attention.TRITON:
            heads = -(-shape.heads // tensor_parallel)
            return Triton(context_length=context_length, heads=heads, head_dim=shape.head_dim)
        case Attention.AMX:
            return OneTable(context_length=context_length)


def pass_of(runner: Runner, queries: int) -> Runner:
    """Return a runner's pass in terms of attention: a block is an extend over as many tokens."""
    return Runner(stage=Stage.EXTEND, draft_tokens=queries) if runner.is_block else runner


def built_bytes(costs: AttentionCosts, arms: Sequence[Arm]) -> int:
    """
    Return the bytes of an engine's attention backends before anything is captured.

    Each distinct runner has its own. In addition, the launch shape has a target and a drafter backend without
    workspaces of their own, arms that do not draft have a drafter backend for prompts, and the backend of an arm that
    shares another arm's exists twice while the arm's state is built.
    """
    every = tuple(dict.fromkeys((OFF, *arms)))
    runners = {runner for arm in every for runner in runners_of(arm)}
    off, extend = runners_of(OFF)[0], Runner(stage=Stage.EXTEND, draft_tokens=1)
    idle = sum(not arm.needs_drafter for arm in every)
    twice = costs.built(off) if len({runners_of(arm)[0] for arm in every}) < len(every) else 0
    own = sum(costs.built(pass_of(runner, queries=1)) for runner in runners)
    return costs.process() + own + twice + (2 + idle) * costs.built(extend)
