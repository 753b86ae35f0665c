"""
SGLang's EAGLE worker with arms and capture. Imported by the plug-in only, inside SGLang's processes.

Written against SGLang 0.5.23: `speculative/eagle_worker_v2.py`. Everything else is SGLang's.
"""

import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

from sglang.srt.distributed.parallel_state import get_tp_group
from sglang.srt.layers.moe.utils import speculative_moe_a2a_backend_context, speculative_moe_backend_context
from sglang.srt.runtime_context import get_serving, get_spec
from sglang.srt.speculative.eagle_worker_v2 import EAGLEWorkerV2
from sglang.srt.speculative.spec_utils import draft_tp_context

from tlt_common.bandit import Bandit
from tlt_common.domain.arm import OFF, Arm
from tlt_common.domain.hidden import CapturePolicy
from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.tuner import Posterior
from tlt_worker.capacity.graphs.sharing import GraphSharing
from tlt_worker.capacity.width import samples_drafts
from tlt_worker.link.messages import DrafterLoaded, ForceArms, PolicyLoaded, Warming
from tlt_worker.link.request_id import request_id
from tlt_worker.link.scheduler_end import SchedulerEnd
from tlt_worker.link.settings import LINK_VARIABLE, LinkSettings
from tlt_worker.scheduler.arms.states import ArmStates
from tlt_worker.scheduler.arms.switching import ArmSwitching
from tlt_worker.scheduler.arms.trace_file import TRACE_BYTES, TraceFile
from tlt_worker.scheduler.capture import HiddenStateCapture
from tlt_worker.scheduler.captured_rows import stretches_of
from tlt_worker.scheduler.compiles import Compiles
from tlt_worker.scheduler.drafts import plain
from tlt_worker.scheduler.drafts.head_tokens import HeadTokensChosen, head_tokens_of
from tlt_worker.scheduler.drafts.sources import Sources
from tlt_worker.scheduler.failures.recovery import skipping
from tlt_worker.scheduler.graphs import Graphs
from tlt_worker.scheduler.held_memory import HeldMemory, share_with_target
from tlt_worker.scheduler.launched_round import LaunchedRound, round_of, take_states, taking
from tlt_worker.scheduler.outputs import Outputs, keep_last_states
from tlt_worker.scheduler.ranks import Decision, Link, NoLink, Ranks, Told
from tlt_worker.scheduler.routed_experts import follow_accepted
from tlt_worker.scheduler.sampling.hooks import is_blocked
from tlt_worker.scheduler.sampling.penalties import prefix_of
from tlt_worker.scheduler.sampling.proposal import ProposalLayout
from tlt_worker.scheduler.sampling.settings import RoundSettings


class TltWorker(EAGLEWorkerV2):  # type: ignore[misc] # SGLang is untyped
    """An EAGLE worker whose arm is chosen per round and whose hidden states are captured."""

    topk: int

    def __init__(self, *args: Any, **kw: Any) -> None:
        super().__init__(*args, **kw)
        settings = LinkSettings.from_json(os.environ[LINK_VARIABLE])
        self.ranks = Ranks.of(get_tp_group())
        self.link: Link = SchedulerEnd(settings) if self.ranks.leads else NoLink()
        self.compiles = Compiles(self.link)
        self.compiles.watch()
        engine, experiment = settings.engine, settings.experiment
        trace = engine.trace if self.ranks.leads else None
        self.switch = ArmSwitching(
            bandit=Bandit(settings.arms, engine.bandit, experiment.seed),
            report=self.link.send,
            clock=time.perf_counter,
            trace=TraceFile(trace, max_bytes=TRACE_BYTES) if trace else None,
            fits=settings.fits,
        )
        self.graphs = Graphs(sharing=self._sharing(settings), phase_file=settings.phase_file)
        rejects = experiment.lossless and samples_drafts(settings.arms)
        self.arms = ArmStates(worker=self, override=_override_spec, arms=settings.arms, rejects=rejects)
        self.states = HiddenStateCapture(send=self.link.send, layers=settings.layers)
        keep_last_states(self.target_worker.model_runner.model)
        self.memory = HeldMemory(on_gpu=settings.device == "cuda", drafter=share_with_target(self._draft_worker))
        self.settings = RoundSettings(self.target_worker.model_config.vocab_size)
        self._draft_worker.layout = ProposalLayout.of(settings.arms, rejects=rejects)
        self._draft_worker.idle = True
        self._learns = any(arm.needs_drafter for arm in settings.arms)
        self._draft_worker.backlog_bytes = settings.backlog_bytes if self._learns else 0
        self._draft_worker.keep_up_below = engine.speculate_below_requests
        self.sources = self._draft_worker.sources = Sources.of(settings, leads=self.ranks.leads)
        self.switch.index_bytes = lambda: self.sources.size_bytes
        self.head_tokens = head_tokens_of(self._draft_worker.draft_runner.model)
        self._processing: LaunchedRound | None = None

    def _sharing(self, settings: LinkSettings) -> GraphSharing:
        return GraphSharing(
            sizes=settings.graph_sizes,
            shares=settings.experiment.shares_graphs,
            queries=self._draft_worker.block_queries,
        )

    def init_cuda_graphs(self) -> None:
        super().init_cuda_graphs()
        with self._drafting(), self.memory.capturing():
            self.graphs.prepare(*self.runners)
            self.arms.build()

    @property
    def last_shared_read_runner(self) -> Any:
        """
        Return the runner whose pass read the scheduler's tables last in this round. They may be rewritten after its
        event.

        SGLang's draft-extend is the last pass of every round. Here it is omitted after blocks and after rounds without
        the drafter. With the event of an earlier drafter pass, a new prompt could take a row of `req_to_token` that the
        following verification still reads.
        """
        target, drafter = self.runners
        return drafter if self._draft_worker.reads_last else target

    @property
    def runners(self) -> tuple[Any, Any]:
        """The model runners of target and drafter."""
        return self.target_worker.model_runner, self._draft_worker.draft_runner

    def held_gib(self) -> dict[str, float]:
        """Return the device memory held by this engine in GiB; see `HeldMemory`."""
        return self.memory.gib(self.runners[0], [runner.token_to_kv_pool for runner in self.runners])

    def build_state(self, arm: Arm) -> Any:
        launched = self.topk
        self.topk = self._draft_worker.topk = arm.topk
        self._draft_worker.building = arm
        self._draft_worker.capture_graphs = partial(self.graphs.capture_drafter, arm)
        target = self.target_worker.model_runner
        with self.graphs.verifying(arm):
            state = self.build_adaptive_runtime_state(arm.steps, arm.draft_tokens)
        if arm == OFF:
            state.target_graph_runner = self.graphs.capture_decoding(target, state.target_attn_backend)
        self.graphs.sharing.share(arm, state)
        self.topk = self._draft_worker.topk = launched
        return state

    def use(self, arm: Arm, state: Any) -> None:
        """
        Switch to another arm.

        Does not use SGLang's `apply_runtime_state`, which does nothing between arms of equal steps and appends to a log
        that is never cleared.
        """
        self.topk = arm.topk
        self.speculative_num_steps, self.speculative_num_draft_tokens = arm.steps, arm.draft_tokens
        target = self.target_worker.model_runner
        target.attn_backend, target.decode_cuda_graph_runner = state.target_attn_backend, state.target_graph_runner
        self._draft_worker.use(arm, state)

    def forward_batch_generation(self, batch: Any, *args: Any, **kw: Any) -> Any:
        launched = LaunchedRound(choice=None, version=PolicyVersion(int(get_serving().weight_version)))
        decision = self.ranks.agree(self._received, self._handle, partial(self._decide, launched, batch))
        self._draft_worker.reads_last = False
        for runner in self.runners:  # one that publishes nothing in this round must not answer with an earlier round's
            runner.shared_read_done_event = None
        with self.settings.of(batch), taking(partial(self._take, launched, batch)):
            result = self._forward(launched, decision, batch, *args, **kw)
        launched.attach(result)
        return result

    def _received(self) -> list[Told]:
        chosen = [] if self.head_tokens is None else self.head_tokens.choose()
        return [*self.link.receive(), *chosen]

    def _take(self, launched: LaunchedRound, batch: Any, result: Any) -> None:
        if self.ranks.leads and self.states.policy.enabled and (made := Outputs.of(result)) is not None:
            launched.take(made, batch, self.states.policy)

    def verify(self, *args: Any, **kw: Any) -> Any:
        result = super().verify(*args, **kw)
        take_states(result)  # the draft-extend that follows overwrites them
        return result

    def _decide(self, launched: LaunchedRound, batch: Any) -> Decision:
        """Choose the arm and found drafts of a decoding round on rank 0."""
        if _runs_prompts(batch):
            launched.prompt_tokens, launched.launched_s = sum(batch.extend_lens or ()), self.switch.clock()
            return Decision()
        blocked = all(is_blocked(req) for req in batch.reqs)
        choice = launched.choice = self.switch.launch(
            len(batch.reqs),
            blocked=blocked,
            find=lambda arm: self.sources.find(arm, batch),
            kv_tokens=sum(req.seqlen for req in batch.reqs),
        )
        drafts = self._draft_worker
        keeps_up = drafts.is_behind(batch) and (drafts.must_keep_up(batch) or self.switch.drafter_pays(len(batch.reqs)))
        return Decision(self.arms.number(choice.arm), self.sources.found(choice.arm) or None, keeps_up)

    def _forward(self, launched: LaunchedRound, decision: Decision, batch: Any, *args: Any, **kw: Any) -> Any:
        if _runs_prompts(batch):
            recomputed = (
                count for req, count in zip(batch.reqs, batch.extend_lens or (), strict=False) if req.output_ids
            )
            self.switch.recomputed_tokens += sum(recomputed)
            if batch.forward_mode.is_extend():
                with self._drafting():
                    self._draft_worker.complete_prefixes(batch)
            result = super().forward_batch_generation(batch, *args, **kw)
        else:
            arm = self.arms.numbered(decision.number)
            if launched.choice is None:  # rank 0 made it
                launched.choice = self.switch.followed(arm)
            self.sources.agree(arm, decision.rest or [])
            self._draft_worker.keeps_up = decision.keeps_up
            with self.arms.running(arm):
                result = self._run(arm, batch, *args, **kw)
        self.sources.launched(batch, result)
        return result

    def _run(self, arm: Arm, batch: Any, *args: Any, **kw: Any) -> Any:
        if arm != OFF:
            result = super().forward_batch_generation(batch, *args, **kw)
            if arm.topk > 1:
                follow_accepted(result, len(batch.reqs), arm.draft_tokens)
            return result
        result = plain.decode(self.target_worker, batch, kw.get("on_publish"))
        self._draft_worker.skip(batch, result)
        if self._draft_worker.keeps_up:
            with self._drafting():
                self._draft_worker.keep_up(batch)
        return result

    def on_verify_complete_cpu(self, num_correct_drafts_per_req: list[int], batch_size: int = 0) -> None:
        del batch_size
        self.switch.caught_up_tokens += self._draft_worker.completion.take_count()
        if self.ranks.leads and self._processing is not None and self._processing.choice is not None:
            self.switch.complete(self._processing.choice, num_correct_drafts_per_req)

    @contextmanager
    def _drafting(self) -> Iterator[None]:
        """Enter the contexts that SGLang sets around passes of the draft model."""
        with (
            draft_tp_context(self._draft_worker.parallel_layout),
            speculative_moe_backend_context(),
            speculative_moe_a2a_backend_context(),
        ):
            yield

    def begin_processing(self, result: Any) -> None:
        """Set the round to process; SGLang calls `on_verify_complete_cpu` without it."""
        self._processing = round_of(result)

    def processed(self, batch: Any, result: Any, lengths_before: list[int]) -> None:
        """Capture the states of a processed round, index its tokens, and finish the frames of ended requests."""
        launched, self._processing = self._processing, None
        if launched is None:
            return
        if launched.choice is None:
            self.switch.prefilled(launched.prompt_tokens, launched.launched_s)
        if launched.states is not None:
            stretches = stretches_of(batch.reqs, launched.rows, lengths_before)
            self.states.add(launched.states, stretches, launched.version)
        self.sources.processed(batch, result)
        if self.head_tokens is not None and self.ranks.leads:
            self.head_tokens.said(
                token
                for req, before in zip(batch.reqs, lengths_before, strict=True)
                for token in req.output_ids[before:]
            )
        for req in batch.reqs:
            if req.finished():
                self.states.finish(request_id(req.rid), prefix_of(req) + len(req.output_ids_through_stop))

    def _handle(self, message: Told) -> None:
        with skipping("message_not_handled", kind=type(message).__name__):  # no request of the round is the cause
            self._apply(message)

    def _apply(self, message: Told) -> None:
        match message:
            case CapturePolicy():
                self.states.policy = message
            case Posterior():
                self.switch.merge(message)
            case ForceArms(names=names):
                self.switch.forced = tuple(map(self.arms.named, names))
            case DrafterLoaded(version=version):
                self.switch.drafter_loaded(version)
                self._draft_worker.idle = not self._learns
            case PolicyLoaded():
                self.switch.policy_loaded()
                if self.head_tokens is not None:
                    self._draft_worker.draft_runner.model.refresh()
            case HeadTokensChosen(tokens=tokens):
                self._draft_worker.draft_runner.model.cover(tokens)
            case Warming(on=on):
                self.switch.warms = on
                self._draft_worker.idle = not (on and self._learns)
                self.compiles.is_warm = not on


def _override_spec(**fields: Any) -> AbstractContextManager[Any]:
    override: AbstractContextManager[Any] = get_spec().override(**fields)
    return override


def _runs_prompts(batch: Any) -> bool:
    """Whether a batch does not decode, or is idle."""
    return bool(batch.forward_mode.is_extend() or batch.is_extend_in_batch or batch.forward_mode.is_idle())
