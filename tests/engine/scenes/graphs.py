"""What SGLang would capture on a GPU, computed by SGLang itself without one: no engine is started."""

import os
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

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
    return GraphsResult(
        batch_sizes=batch_sizes,
        verified_with=verified_with,
        is_restored=is_restored,
        decoding=decoding,
        decoding_unplanned=decoding_unplanned,
    )
