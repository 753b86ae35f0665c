"""What SGLang would capture on a GPU, computed by SGLang itself without one: no engine is started."""

import os
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from tlt_common.domain.arm import OFF, Arm, chain, tree
from tlt_worker.capacity.graphs.sharing import GraphSharing, Sizes
from tlt_worker.engine.device import CPU

WIDE, DEEP = tree(2, 4, 8), tree(4, 2, 8)
PLANNED: Sizes = {
    "off": {"verify": (1, 2, 8)},
    "chain-3": {"verify": (1, 2, 4), "draft": (1, 2), "extend": (1,)},
    WIDE.name: {"verify": (1, 2), "draft": (1,), "extend": (1, 2)},
    DEEP.name: {"verify": (1, 2), "draft": (1, 2), "extend": (1, 2)},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingGraphs:
    """What SGLang's runner of decode graphs is told."""

    sizes: list[int]
    speculates: bool
    states: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphsResult:
    """What SGLang would capture."""

    batch_sizes: dict[str, list[int] | None]
    """By arm; None if it captures nothing."""
    verified_with: dict[str, str]
    """By arm, the arm whose graphs verify its drafts."""
    is_restored: bool
    """Whether SGLang's configuration is unchanged afterwards."""
    decoding: DecodingGraphs | None
    """The graphs of rounds without drafts; None: nothing is captured."""
    decoding_unplanned: DecodingGraphs | None
    captured_seeds: list[int]
    """What the graphs of a chain's steps read as seeds while they are captured."""
    replayed_seeds: list[list[int]]
    """And when they are replayed: with seeds, without, and for one request of two."""
    seeds_are_restored: bool


async def sizes(work: Path) -> GraphsResult:
    """Return the batch sizes SGLang captures for the target, for each arm."""
    del work
    os.environ.update(CPU.variables())
    CPU.enter()
    from sglang.srt.model_executor.cuda_graph_config import Backend, CudaGraphConfig, Phase, check_cuda_graph_backend
    from sglang.srt.model_executor.forward_batch_info import get_server_return_hidden_states_mode
    from sglang.srt.model_executor.runner import get_batch_sizes_to_capture
    from sglang.srt.runtime_context import get_context, get_exec
    from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

    from tlt_worker.scheduler import graphs as worker_graphs
    from tlt_worker.scheduler.graphs import Graphs

    graphs = Graphs(sharing=GraphSharing(sizes=PLANNED))
    batch_sizes: dict[str, list[int] | None] = {}
    verified_with: dict[str, str] = {}
    context = get_context()
    with context.override_server_args(cuda_graph_config=CudaGraphConfig()):
        before = get_exec().graph.cuda_graph_config
        runner = SimpleNamespace(
            req_to_token_pool=SimpleNamespace(size=8),
            server_args=context.server_args,
            spec_algorithm=SpeculativeAlgorithm.EAGLE,
        )

        def sizes_of(arm: Arm) -> list[int] | None:
            if check_cuda_graph_backend(Phase.DECODE, Backend.DISABLED):
                return None
            found: list[int] = get_batch_sizes_to_capture(runner, arm.draft_tokens)[0]
            return found

        def captured(runner: SimpleNamespace, *, attn_backend: object) -> DecodingGraphs:
            """Take the place of the runner, whose capture needs a GPU."""
            del attn_backend
            return DecodingGraphs(
                sizes=get_batch_sizes_to_capture(runner)[0],
                speculates=runner.spec_algorithm.is_speculative(),
                states=get_server_return_hidden_states_mode().name,
            )

        worker_graphs.DecodeCudaGraphRunner = captured  # type: ignore[attr-defined] # imported there
        decoding = graphs.capture_decoding(runner, None)
        decoding_unplanned = Graphs(sharing=GraphSharing(sizes={})).capture_decoding(runner, None)
        is_same = runner.spec_algorithm is SpeculativeAlgorithm.EAGLE
        for arm in (OFF, chain(3), WIDE, DEEP, chain(7)):
            with graphs.verifying(arm):
                batch_sizes[arm.name] = sizes_of(arm)
            state = SimpleNamespace(
                target_attn_backend=arm.name,
                target_graph_runner=arm.name,
                draft_attn_backend=arm.name,
                cuda_graph_runner=arm.name,
                draft_extend_attn_backend=arm.name,
                cuda_graph_runner_for_draft_extend=arm.name,
            )
            graphs.sharing.share(arm, state)
            verified_with[arm.name] = state.target_graph_runner
        is_restored = is_same and get_exec().graph.cuda_graph_config is before
        captured_seeds, replayed_seeds, seeds_are_restored = _seeds()
    return GraphsResult(
        batch_sizes=batch_sizes,
        verified_with=verified_with,
        is_restored=is_restored,
        decoding=decoding,
        decoding_unplanned=decoding_unplanned,
        captured_seeds=captured_seeds,
        replayed_seeds=replayed_seeds,
        seeds_are_restored=seeds_are_restored,
    )


def _seeds() -> tuple[list[int], list[list[int]], bool]:
    """Capture and replay the graphs of a chain's steps, with SGLang's own replay up to the device's."""
    from contextlib import nullcontext

    from sglang.srt.runtime_context import get_spec
    from sglang.srt.speculative.eagle_draft_cuda_graph_runner import EAGLEDraftCudaGraphRunner

    from tlt_worker.scheduler.graphs import SeededDraftGraphs

    names = ("seq_lens", "out_cache_loc", "positions", "topk_p", "topk_index", "req_pool_indices", "seq_lens_cpu")
    nothing = dict.fromkeys(("rids_int", "bootstrap_room_ids_int", "draft_probs", "hidden_states", "dsa_seed_topk"))

    def some(count: int) -> dict[str, Any]:
        return {name: torch.zeros(count, dtype=torch.int64) for name in names}

    runner = SeededDraftGraphs.__new__(SeededDraftGraphs)
    runner.max_bs, runner.device, runner.capture_bs, runner.captured_req_width = 4, "cpu", [1, 2, 4], 1
    runner.speculative_num_steps, runner.seq_len_fill_value = 1, 1
    runner.require_mlp_tp_gather = runner.require_gathered_buffer = False
    runner.buffers = SimpleNamespace(**some(4), **nothing, sampling_seed=None)
    runner.temperatures, runner.top_ks = torch.ones(4, 1), torch.ones(4, dtype=torch.int32)
    runner.model_runner = SimpleNamespace(
        model_config=SimpleNamespace(model_is_mrope=False, vocab_size=9), device_timer=None
    )
    runner.deepep_adapter = SimpleNamespace(replay=lambda: None)
    runner.draft_attn_backend = SimpleNamespace(init_forward_metadata_out_graph=lambda _: None)
    runner.model_context = nullcontext
    seen: list[list[int]] = []

    def replay(*_: Any) -> tuple[None, None, None, None]:
        seen.append(runner.buffers.sampling_seed.tolist())
        return None, None, None, None

    runner.backend = SimpleNamespace(replay=replay)
    EAGLEDraftCudaGraphRunner.capture = lambda self: seen.append(self.buffers.sampling_seed.tolist())
    runner.capture()
    is_restored = True
    with get_spec().override(speculative_use_rejection_sampling=True):
        for given in (torch.tensor([5, 6]), None, torch.tensor([-1, 7])):
            info = SimpleNamespace(
                sampling_seed=given, temperatures=torch.ones(2, 1), top_ks=torch.ones(2), is_all_greedy=False
            )
            spec_info = SimpleNamespace(
                topk_p=torch.zeros(2, dtype=torch.int64), topk_index=torch.zeros(2, dtype=torch.int64),
                draft_probs=None, hidden_states=None, dsa_topk_indices=None,
            )  # fmt: skip
            batch: Any = SimpleNamespace(
                **some(2), batch_size=2, sampling_info=info, spec_info=spec_info, seq_lens_sum=2, mrope_positions=None
            )
            runner.execute(batch)
            restored: Tensor | None = info.sampling_seed
            is_restored &= restored is given
    return seen[0], [row[:2] for row in seen[1:]], is_restored
