"""SGLang's verification without and with our hooks."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from scipy.stats import chisquare
from torch import Tensor

from tests.engine.scenes.verification import (
    BATCH,
    VOCABULARY,
    Case,
    act_as_on_a_gpu,
    load_sglang,
    logits,
    verify,
)
from tlt_worker.engine.device import CPU
from tlt_worker.link.penalty import Penalty
from tlt_worker.link.settings import LINK_VARIABLE, SIMULATION_VARIABLE, LinkSettings
from tlt_worker.scheduler.sampling.cuts import Cuts
from tlt_worker.scheduler.sampling.filters import truncate
from tlt_worker.scheduler.sampling.penalties import Penalties

CASES = {
    "temperature": Case(temperature=0.7),
    "top-k with top-p": Case(top_k=4, top_p=0.7),
    "min-p": Case(min_p=0.3),
    "repeated siblings": Case(drafts=[0, 3, 3, 3, 7]),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Properties of one verification."""

    p_values: dict[str, float]
    """By case, a key of `CASES`: p value of its first tokens under the exact distribution."""
    seeded_share: float
    """Share of seeded requests whose first token equals that of SGLang's plain sampler."""
    threshold_error: str
    """Error raised for an acceptance threshold; empty if none."""
    processor_error: str
    """Error raised for a custom logit processor; empty if none."""
    penalized_accepted_tokens: int
    """Draft tokens accepted for a request with penalties."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamResult:
    """SGLang's verification, and ours."""

    distinct_first_tokens: int
    """Of SGLang on a CPU."""
    sglang: Verification
    ours: Verification
    sglang_counted_tokens: int
    """Tokens counted towards `min_new_tokens` after a round of four tokens."""
    our_counted_tokens: int
    simulated_accept_length: float
    """Mean accept length when SGLang simulates one of 2."""
    simulation_error: str


async def upstream(work: Path) -> UpstreamResult:
    """Measure SGLang without, then with the hooks installed."""
    del work
    os.environ.update({**CPU.variables(), LINK_VARIABLE: LinkSettings(directory="/nonexistent").to_json()})
    CPU.enter()
    torch.manual_seed(0)
    utils = load_sglang()
    distinct = len(set(_first_tokens(utils, Case())))
    act_as_on_a_gpu(utils)
    sglang = _measured(utils)
    sglang_counted, our_counted = _counted_of_four()
    simulated, simulation_error = _simulated(utils), _simulation_error()
    _install()
    return UpstreamResult(
        distinct_first_tokens=distinct,
        sglang=sglang,
        ours=_measured(utils),
        sglang_counted_tokens=sglang_counted,
        our_counted_tokens=our_counted,
        simulated_accept_length=simulated,
        simulation_error=simulation_error,
    )


def _install() -> None:
    from sglang.srt.plugins.hook_registry import HookRegistry

    from tlt_worker.scheduler import plugin

    plugin.install()
    HookRegistry.apply_hooks()


def _counted_tokens(penalties: Penalties, req: Any) -> int:
    """Return the tokens counted for a request, from the smallest minimum length that forbids the end."""
    for minimum in range(1, 20):
        req.sampling_params.custom_params = {"tlt_penalty": Penalty(min_tokens=minimum).packed()}
        info = SimpleNamespace(temperatures=torch.ones(1, 1), acc_additive_penalties=None)
        penalties.apply([req], info)
        if info.acc_additive_penalties is not None and info.acc_additive_penalties[0, 1] < 0:
            return minimum - 1
    return 20


@dataclass(slots=True, weakref_slot=True)
class _Orchestrator:
    """The interface that SGLang's penalizers need."""

    only: Any
    device: str = "cpu"
    vocab_size: int = VOCABULARY

    def reqs(self) -> list[Any]:
        return [self.only]


def _counted_of_four() -> tuple[int, int]:
    """Return the tokens counted after a round of four tokens, by SGLang and by us."""
    from sglang.srt.managers.schedule_batch import ScheduleBatch
    from sglang.srt.sampling.penaltylib.min_new_tokens import BatchedMinNewTokensPenalizer

    custom = {"tlt_penalty": Penalty(min_tokens=9).packed()}
    req = SimpleNamespace(
        rid="r",
        origin_input_ids=[0],
        output_ids=[5, 6, 7, 8],
        eos_token_ids=set(),
        tokenizer=SimpleNamespace(additional_stop_token_ids=None, eos_token_id=1),
        sampling_params=SimpleNamespace(min_new_tokens=9, stop_token_ids={1}, custom_params=custom),
    )
    orchestrator = _Orchestrator(req)
    theirs = BatchedMinNewTokensPenalizer(orchestrator)
    theirs.prepare_if_required()
    info = SimpleNamespace(penalizer_orchestrator=theirs)
    ScheduleBatch.cumulate_penalty_output_tokens(SimpleNamespace(reqs=[req], device="cpu", sampling_info=info))
    ours = Penalties(VOCABULARY)
    ours.begin([req], "cpu")
    return int(theirs.len_output_tokens), _counted_tokens(ours, req)


def _simulated(utils: Any) -> float:
    """Return the mean accept length when SGLang is set to simulate one of 2."""
    from sglang.srt.speculative import spec_utils

    spec_utils.SIMULATE_ACC_LEN = 2.0
    try:
        return float(verify(utils, Case(drafts=[0, 1, 2, 1, 2]))[1].float().mean())
    finally:
        spec_utils.SIMULATE_ACC_LEN = -1.0


def _simulation_error() -> str:
    from tlt_worker.scheduler import plugin

    os.environ[SIMULATION_VARIABLE] = "2"
    try:
        return _error_of(plugin.install)
    finally:
        del os.environ[SIMULATION_VARIABLE]


def _measured(utils: Any) -> Verification:
    # Once generated, token 3 is impossible: a draft that contains it twice must not be accepted.
    strong = torch.zeros(BATCH, VOCABULARY)
    strong[:, 3] = 50.0
    penalized = Case(drafts=[0, 3, 5, 3, 7], penalties=strong, custom={"tlt_speculation_off": True})
    return Verification(
        p_values={name: _p_value(utils, case) for name, case in CASES.items()},
        seeded_share=_share_of_plain_tokens(utils),
        threshold_error=_error_of(lambda: _verify_with_threshold(utils)),
        processor_error=_error_of(lambda: verify(utils, Case(has_processor=True))),
        penalized_accepted_tokens=int(verify(utils, penalized)[1].max()) - 1,
    )


def _p_value(utils: Any, case: Case) -> float:
    counts = torch.bincount(torch.tensor(_first_tokens(utils, case)), minlength=VOCABULARY).double()
    exact = _exact(case)[0].double()
    possible = exact > 0
    if counts[~possible].any():
        return 0.0
    expected = exact[possible] / exact[possible].sum() * counts.sum()
    return float(chisquare(counts[possible].numpy(), expected.numpy()).pvalue)


def _exact(case: Case) -> Tensor:
    one = torch.ones(1)
    cuts = Cuts(top_ks=(one * case.top_k).long(), top_ps=one * case.top_p, min_ps=one * case.min_p)
    return truncate(torch.softmax(logits()[:1] / case.temperature, -1), cuts)


def _share_of_plain_tokens(utils: Any) -> float:
    """Return the share of seeded requests whose first token equals that of SGLang's plain sampler."""
    from sglang.srt.layers.sampler import multinomial_with_seed

    seeds = torch.arange(BATCH)
    plain = multinomial_with_seed(torch.log(_exact(Case())).expand(BATCH, -1), seeds, torch.full((BATCH,), 8))
    return float((plain.view(-1) == torch.tensor(_first_tokens(utils, Case(seed=0)))).float().mean())


def _verify_with_threshold(utils: Any) -> None:
    settings = utils.get_spec()
    settings.speculative_accept_threshold_single = 0.2
    try:
        verify(utils, Case())
    finally:
        settings.speculative_accept_threshold_single = 1.0


def _error_of(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except Exception as error:  # noqa: BLE001 - the test checks the message
        return str(error)
    return ""


def _first_tokens(utils: Any, case: Case) -> list[int]:
    predicts, _, path = verify(utils, case)
    tokens: list[int] = predicts[path[:, 0].long()].tolist()
    return tokens
