"""
The plug-in SGLang loads in each of its processes (entry point `sglang.srt.plugins: tlt`).

It is installed wherever the suite is, so it does nothing unless a TLT worker started the engine. SGLang logs and
ignores a plug-in's errors, so `assert_installed` checks in the scheduler process that the hooks are in place, and the
start-up report passes the result to the worker.
"""

import os
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any

from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.errors import EngineError
from tlt_common.start_phase import enter
from tlt_common.telemetry.log import configure_child, get_logger
from tlt_worker.link.failure import note_failure
from tlt_worker.link.messages import StartReport
from tlt_worker.link.settings import LINK_VARIABLE, MODELS_PACKAGE, SIMULATION_VARIABLE, LinkSettings

log = get_logger(__name__)


class How(StrEnum):
    """How a hook changes its target."""

    REPLACE = "replace"
    """Replace a class or function through SGLang's hook registry."""
    AROUND = "around"
    """Wrap a function through SGLang's hook registry; the hook receives the original first."""
    SET = "set"
    """Set a name that is None on this device. The registry would replace every None in SGLang or torch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """One change to SGLang."""

    target: str
    how: How
    replacement: Any


def hooks(settings: LinkSettings | None, *, cpu: bool) -> tuple[Hook, ...]:
    """Return all hooks. Imports SGLang's workers, which takes seconds."""
    from tlt_worker.scheduler import held_memory, routed_experts
    from tlt_worker.scheduler.drafts.relay import gather_tokens
    from tlt_worker.scheduler.eagle_worker import TltWorker
    from tlt_worker.scheduler.failures import between_rounds, containment, control_requests, intake
    from tlt_worker.scheduler.gloo_devices import SharedDevicesGloo
    from tlt_worker.scheduler.launched_round import copy_with_states, take_before_the_drafter
    from tlt_worker.scheduler.models import packed_weights
    from tlt_worker.scheduler.policy_load import read_policy, report_failed_load
    from tlt_worker.scheduler.sampling import hooks as verification
    from tlt_worker.scheduler.sampling import logprobs, proposal
    from tlt_worker.scheduler.stopping import (
        end_as_the_tokenizer_says,
        finish_before_abort,
        stop_at_stop_tokens,
        stop_at_strings,
    )

    found = [
        _replace("speculative.eagle_worker_v2.EagleDraftWorker", _draft_worker(settings)),
        _replace("speculative.eagle_worker_v2.EAGLEWorkerV2", TltWorker),
        _around("speculative.spec_utils.sample_draft_proposal", proposal.sample_for_every_arm),
        _around("speculative.spec_utils.renorm_draft_probs", proposal.keep_prompt_logits),
        _around("speculative.eagle_utils.organize_draft_results", proposal.keep_parents),
        _around("managers.scheduler.Scheduler.handle_generate_request", intake.refuse_what_fails),
        _around("managers.scheduler.Scheduler.init_request_dispatcher", control_requests.contain_control),
        _around("managers.scheduler.Scheduler.get_next_batch_to_run", between_rounds.plan_contained),
        _around("managers.scheduler.Scheduler.get_new_batch_prefill", containment.admit_one_suspect),
        _around("managers.scheduler.Scheduler.run_batch", containment.run_contained),
        _around("managers.scheduler.Scheduler.process_batch_result", capture_around),
        _around("managers.scheduler.Scheduler.get_init_info", report_start),
        _around("configs.model_config.ModelConfig._get_hf_eos_token_id", end_as_the_tokenizer_says),
        _around("managers.schedule_batch.Req.update_finish_state", finish_before_abort),
        _around("managers.schedule_batch.Req._check_token_based_finish", stop_at_stop_tokens),
        _around("managers.schedule_batch.Req._check_str_based_finish", stop_at_strings),
        _around("managers.tp_worker.TpModelWorker.forward_batch_generation", take_before_the_drafter),
        _around("managers.overlap_utils.FutureMap._resolve_spec_extras", gather_tokens),
        _around("managers.utils.GenerationBatchResult.copy_to_cpu", copy_with_states),
        _around("layers.logprob_processor.compute_spec_logprobs", logprobs.verify_logprobs),
        _around("layers.sampler.Sampler.forward", logprobs.plain_logprobs),
        _around("managers.scheduler_components.ipc_channels.SchedulerIpcChannels.create", join_channels),
        _around(
            "managers.scheduler_components.weight_updater.SchedulerWeightUpdaterManager._select_runners",
            select_target_by_default,
        ),
        _around("model_executor.model_runner.ModelRunner.load_model", load_in_phases),
        _around(
            "model_executor.model_runner_components.weight_updater.WeightUpdater.update_weights_from_disk",
            report_failed_load,
        ),
        _around("model_loader.loader.DefaultModelLoader._get_weights_iterator", read_policy),
        _around("state_capturer.routed_experts.RoutedExpertsCapturer.create", routed_experts.room_for_verification),
        _around("state_capturer.base.BaseTopkCapturer.on_forward_end", routed_experts.keep_until_processed),
        Hook(target="torch.distributed.distributed_c10d.ProcessGroupGloo", how=How.SET, replacement=SharedDevicesGloo),
    ]
    if settings is None or settings.experiment.lossless:
        found += _sampling_hooks(cpu=cpu)
    if cpu:
        updater = "managers.scheduler_components.weight_updater.SchedulerWeightUpdaterManager"
        row_argmax = "sglang.kernels.ops.speculative.row_argmax.row_argmax"
        unquantized, loaded = "layers.quantization.unquant.Unquantized", "process_weights_after_loading"
        found += [
            _around(f"{unquantized}LinearMethod.apply", packed_weights.multiply),
            _around(f"{unquantized}LinearMethod.{loaded}", packed_weights.forget),
            _around(f"{unquantized}EmbeddingMethod.{loaded}", packed_weights.forget),
            _around("layers.logits_processor.LogitsProcessor._compute_lm_head", packed_weights.logits),
            _around("arg_groups.overrides._attention_backend_platform_fallbacks", keep_attention_backend),
            _replace(f"{updater}.release_memory_occupation", held_memory.release_on_cpu),
            _replace(f"{updater}.resume_memory_occupation", held_memory.resume_on_cpu),
            Hook(target=row_argmax, how=How.REPLACE, replacement=verification.row_argmax),
            _around("mem_cache.pool_host.common.alloc_with_host_register", routed_experts.allocate_unpinned),
        ]
    return tuple(found)


def _draft_worker(settings: LinkSettings | None) -> type:
    if settings is not None and settings.architecture is DrafterArchitecture.BLOCK:
        from tlt_worker.scheduler.blocks.worker import TltBlockWorker

        return TltBlockWorker
    from tlt_worker.scheduler.draft_worker import TltDraftWorker

    return TltDraftWorker


def _sampling_hooks(*, cpu: bool) -> list[Hook]:
    from tlt_worker.scheduler.sampling import acceptance as sampling
    from tlt_worker.scheduler.sampling import hooks as verification

    utils, tree = "speculative.eagle_utils", "tree_speculative_sampling_target_only"
    found = [
        _around(f"{utils}.eagle_sample", verification.sample_with_plain_filters),
        _replace(f"{utils}.chain_speculative_sampling_triton", sampling.accept_chain),
        _replace("layers.sampler.Sampler._sample_from_probs", verification.sample_plainly),
        _around("speculative.spec_utils.fast_sample", verification.propose),
    ]
    if not cpu:
        return [
            *found,
            _replace(f"{utils}.{tree}", sampling.tree_speculative_sampling_target_only),
            _around(f"{utils}.top_k_renorm_prob", verification.skip_second_filter),
            _around(f"{utils}.top_p_renorm_prob", verification.skip_second_filter),
        ]
    return [
        *found,
        _replace(f"{utils}._verify_uses_greedy", verification.is_greedy_batch),
        _set(f"{utils}.{tree}", sampling.tree_speculative_sampling_target_only),
        _set(f"{utils}.top_k_renorm_prob", verification.keep_probs),
        _set(f"{utils}.top_p_renorm_prob", verification.keep_probs),
    ]


def _replace(name: str, replacement: Any) -> Hook:
    return Hook(target=f"sglang.srt.{name}", how=How.REPLACE, replacement=replacement)


def _set(name: str, replacement: Any) -> Hook:
    return Hook(target=f"sglang.srt.{name}", how=How.SET, replacement=replacement)


def _around(name: str, replacement: Any) -> Hook:
    return Hook(target=f"sglang.srt.{name}", how=How.AROUND, replacement=replacement)


def install() -> None:
    """
    Register the hooks, if a TLT worker started this engine.

    Raises:
        EngineError: SGLang is set to simulate acceptance outside a benchmark.
    """
    settings = _settings()
    if settings is None:
        return
    if float(os.environ.get(SIMULATION_VARIABLE, "-1")) > 0 and not settings.experiment.simulates:
        raise EngineError(f"{SIMULATION_VARIABLE} is set, so responses would not be the model's; unset it")
    configure_child()
    note_failure(settings.failure)
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    from tlt_common import mimo

    mimo.register()

    for hook in hooks(settings, cpu=_is_cpu()):
        if hook.how is How.SET:
            parent, _, name = hook.target.rpartition(".")
            setattr(pkgutil.resolve_name(parent), name, hook.replacement)
        else:
            HookRegistry.register(hook.target, hook.replacement, HookType(hook.how))


def check_importable() -> None:
    """
    Import all targets of the hooks.

    Raises:
        ImportError: A target does not exist in this SGLang.
        AttributeError: A target's name does not exist in its module.
    """
    for hook in hooks(_settings(), cpu=_is_cpu()):
        pkgutil.resolve_name(hook.target)


def assert_installed() -> None:
    """
    Check that all hooks are in place.

    Raises:
        EngineError: Hooks are missing; the message names them.
    """
    import sglang

    settings = _settings()
    if settings is None:
        return
    required = hooks(settings, cpu=_is_cpu())
    missing = [
        hook.target for hook in required if not _is_in_place(pkgutil.resolve_name(hook.target), hook.replacement)
    ]
    if missing:
        raise EngineError(f"hooks missing in SGLang {sglang.__version__}: {missing}")


def _assert_draft_model(drafts: Any) -> None:
    model = type(drafts.draft_runner.model)
    if not model.__module__.startswith(MODELS_PACKAGE):
        raise EngineError(f"SGLang loaded the drafter as {model.__module__}.{model.__name__}; required: ours")


def _is_in_place(installed: Any, replacement: Any) -> bool:
    # The registry wraps functions: the replacement is in a wrapper's closure.
    while installed is not None:
        if installed is replacement:
            return True
        if any(cell.cell_contents is replacement for cell in getattr(installed, "__closure__", None) or ()):
            return True
        installed = getattr(installed, "__wrapped__", None)
    return False


def _settings() -> LinkSettings | None:
    text = os.environ.get(LINK_VARIABLE)
    return LinkSettings.from_json(text) if text else None


def _is_cpu() -> bool:
    return os.environ.get("SGLANG_USE_CPU_ENGINE") == "1"


def keep_attention_backend(original: Callable[..., Any], view: Any) -> Any:
    """Keep `intel_amx` on a CPU without AMX: the stand-in provides its two operators, and draft workers need it."""
    return {} if view.device == "cpu" else original(view)


def join_channels(original: Callable[..., Any], *args: Any, **kw: Any) -> Any:
    """
    Send tokens and control responses through one socket, in order.

    Two sockets are polled fairly, not in order: tokens produced before an update could be read after its response.
    """
    channels = original(*args, **kw)
    return replace(channels, send_to_detokenizer=channels.send_to_tokenizer)


def select_target_by_default(original: Callable[..., Any], self: Any, selector: str = "all") -> Any:
    """Load policy weights into the target only. SGLang would load them into the drafter as well."""
    return original(self, "target" if selector == "all" else selector)


def capture_around(original: Callable[..., Any], self: Any, batch: Any, result: Any, *args: Any, **kw: Any) -> Any:
    """Wrap the processing of a round: contain failures, record the round, and count it."""
    from tlt_worker.scheduler.failures.containment import process_contained

    outcome = process_contained(partial(_processed, original), self, batch, result, *args, **kw)
    self.draft_worker.link.beat()
    return outcome


def _processed(original: Callable[..., Any], self: Any, batch: Any, result: Any, *args: Any, **kw: Any) -> Any:
    from tlt_worker.scheduler.sampling.logprobs import drop_skipped_prompts
    from tlt_worker.scheduler.sampling.settings import count_proposed

    drop_skipped_prompts(batch, result)
    before = [len(req.output_ids) for req in batch.reqs]
    count_proposed(batch, result)
    self.draft_worker.begin_processing(result)
    outcome = original(self, batch, result, *args, **kw)
    try:
        self.draft_worker.processed(batch, result, before)
    except Exception:
        log.exception("capture_failed")
    return outcome


def load_in_phases(original: Callable[..., Any], self: Any) -> Any:
    """Wrap the loading of a model, the policy or the drafter: report what the start is at."""
    settings = _settings()
    file = settings.phase_file if settings else None
    enter("loading the drafter" if self.is_draft_worker else "loading the weights", file)
    loaded = original(self)
    enter("allocating the KV cache", file)
    return loaded


def report_start(original: Callable[..., Any], self: Any) -> Any:
    """Wrap the last step of the scheduler's start: check the hooks and report to the worker."""
    info = original(self)
    failure = ""
    try:
        assert_installed()
        _assert_draft_model(self.draft_worker.draft_worker)
    except EngineError as error:
        failure = error.message
    self.draft_worker.link.send(
        StartReport(
            failure=failure,
            hidden_size=self.model_config.hidden_size,
            max_running=self.max_running_requests,
            max_total_tokens=self.max_total_num_tokens,
            gib=self.draft_worker.held_gib(),
            drafter_bytes=self.draft_worker.memory.drafter,
        )
    )
    return info
