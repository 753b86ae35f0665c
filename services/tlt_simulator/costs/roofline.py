"""
Cost models of cards and models without measurements, calculated from bytes and operations. Pure.

Bytes and operations are those of `tlt engine plan --rounds`. Utilizations of a card's published rates, the fixed time
of a round and each engine's own are chosen to fit, with a single calibration, the rounds of `published.rounds` and half
of the speedups of `published.speculation`. `compared` has the errors, which `tlt simulate cases --held-out` prints.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tlt_cache.config import CaptureSettings
from tlt_common.errors import ConfigError
from tlt_simulator.costs import learning
from tlt_simulator.costs.figure import CostFigure, Source
from tlt_simulator.costs.model import CostModel
from tlt_simulator.costs.trainer_rate import learned_tokens_s
from tlt_worker.capacity.rounds import COMPUTE_SHARE, READ_SHARE, Situation, Speed
from tlt_worker.capacity.shape import ModelShape
from tlt_worker.checkpoints.drafter_format import drafter_format
from tlt_worker.checkpoints.model_config import read_config
from tlt_worker.commands.cards import CONFIGS, SPEEDS
from tlt_worker.engine_config import EngineConfig
from tlt_worker.model.requirements import require_runnable

READ_SHARES: Final = {"a100-80": 0.75, "h100": 0.93, "h200": 0.93, "b200": 0.82}
"""Share of a card's bandwidth at which weights are read. The H200's is the H100's: nothing was found for it."""
READ_SPREAD: Final = 0.1
"""Shares this much smaller or larger fit nearly as well."""
KV_SHARE, KV_LEAST, KV_MOST = 0.53, 0.35, 0.9
"""Utilization for keys and values: of published slopes one gives 0.39 (30B-A3B, A100), one 0.99 (72B, H100)."""
ROW_SHARE, ROW_LEAST, ROW_MOST = 0.77, 0.55, 0.85
"""Share of a card's dense rate at which the rows of a round are computed: 21 us a row of an 8B policy on an H100."""
LAYER_S, LAYER_LEAST_S, LAYER_MOST_S = 37e-6, 25e-6, 60e-6
"""Kernels of a layer, beyond what they read: their beginnings and ends within a CUDA graph."""
EXPERT_LAYER_S: Final = 38e-6
"""More of them in a layer with experts."""
REDUCE_S, REDUCE_MOST_S = 8.5e-6, 20e-6
"""Each of a layer's two sums over ranks, on NVLink. It fits small, since the time of waiting ranks is in `LAYER_S`."""
REQUEST_S, REQUEST_LEAST_S, REQUEST_MOST_S = 30e-6, 10e-6, 50e-6
"""Sampling and scheduling of a request; published rounds contain prefills of others, so that it may be less."""
PASS_S, PASS_LEAST_S, PASS_MOST_S = 230e-6, 100e-6, 800e-6
"""Launches of a pass of the drafter: a layer, the head, a draw."""
NGRAM_ROUND_S, NGRAM_ROUND_MOST_S = 0.5e-3, 2e-3
"""What a round with n-grams takes besides rows and lookups: it does not overlap with the scheduling of the next one."""
NGRAM_REQUEST_S, NGRAM_REQUEST_LEAST_S, NGRAM_REQUEST_MOST_S = 35e-6, 5e-6, 100e-6
"""Looking up n-grams: 0.6 % of a verification of 6 ms (SpecDecode-Bench, arXiv 2601.11580)."""
WIDTH: Final = 0.92
"""
Factor on both sides of all intervals of `ROUND_COSTS`, for which the 90 % intervals of speedups contain nine in ten of
the held-out ones (`compared`), as in split conformal prediction.
"""
ROUND_COSTS: Final = (
    "round_fixed_s",
    "round_request_s",
    "round_read_s",
    "expert_read_s",
    "round_token_s",
    "kv_token_s",
    "draft_fixed_s",
    "draft_token_s",
    "draft_kv_token_s",
    "draft_round_s",
    "draft_request_s",
)
"""What a speedup with given tokens per round depends on."""
HOST_BYTES_S: Final = 20e9
"""Bytes per second from the host's memory to a GPU over PCIe 4, of 32e9 at most."""
STATE_BITS: Final[int] = CaptureSettings.model_fields["state_bits"].default
"""Bits per element of a state in the cache."""
UPDATE_S, UPDATE_BYTE_S = 1.2, 10.7e-12
"""
Duration of weight updates: 3.47 s for GLM-4.5-Air and 6.22 s for Qwen3-235B on 8 H800, in bfloat16; a line through
both. https://github.com/MoonshotAI/checkpoint-engine.
"""

NAMES: Final = {
    "7b": "qwen2.5-7b",
    "14b": "qwen2.5-14b",
    "32b": "qwen2.5-32b",
    "70b": "llama3-70b",
    "30b-a3b": "qwen3-30b-a3b",
}
"""Short names of models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOverhead:
    """Time of an engine's own in a round, whatever the model and the card."""

    round_s: float = 0.0
    draft_round_s: float = 0.0
    """More of it in a round with a drafter, besides its passes."""
    draft_request_s: float = 0.0
    """The same for each request."""
    pass_reduce_s: float = 0.0
    """More of it in each pass of the drafter in a tensor-parallel group."""
    least: float = 0.3
    """Lower end of the intervals of what drafting adds, in units of it."""
    most: float = 1.3


ENGINES: Final[Mapping[str, EngineOverhead]] = {
    "gpt-fast": EngineOverhead(),
    "sglang": EngineOverhead(round_s=0.4e-3, draft_round_s=3.7e-3, draft_request_s=41e-6, pass_reduce_s=510e-6),
    "vllm": EngineOverhead(round_s=1.0e-3, draft_round_s=1.5e-3, draft_request_s=18e-6),
    "tensorrt-llm": EngineOverhead(round_s=0.1e-3, draft_round_s=1.0e-3, draft_request_s=94e-6),
}
"""Fitted to published rounds and speedups, most of 2025."""
OWN: Final = EngineOverhead(
    round_s=0.4e-3, draft_round_s=1.5e-3, draft_request_s=18e-6, pass_reduce_s=100e-6, least=0.3, most=2.5
)
"""
The simulated engine: SGLang with all of drafting in CUDA graphs, as in the TLT paper, whose speedups it fits (`tlt
simulate --case paper`). SGLang's of 2025 took 2.5 times as long, the upper end of its intervals.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A worker's GPUs and their utilization."""

    card: str
    gpus: int = 1

    @property
    def speed(self) -> Speed:
        """Rates that, with the utilization that `Situation` assumes, give the actual ones."""
        published = SPEEDS[self.card]
        return Speed(gb_per_s=published.gb_per_s * READ_SHARES[self.card] / READ_SHARE, tflops=published.tflops)

    def fixed_s(self, shape: ModelShape, layer_s: float = LAYER_S, reduce_s: float = REDUCE_S) -> float:
        """Return the time of a round besides bytes, operations and requests."""
        experts = 0 if shape.experts is None else shape.experts.layers
        reduced = 2 * shape.layers if self.gpus > 1 else 0
        return layer_s * shape.layers + EXPERT_LAYER_S * experts + reduce_s * reduced

    def row_s(self, parameters: float) -> float:
        """Return the duration of multiplying one row by this many parameters."""
        return 2 * parameters / (SPEEDS[self.card].tflops * 1e12 * ROW_SHARE) / self.gpus

    def kv_token_s(self, shape: ModelShape, share: float = KV_SHARE) -> float:
        """Return the duration of reading one token's keys and values."""
        heads = max(1, shape.kv_heads // self.gpus)  # copied where there are too few
        size = 2 * shape.layers * heads * shape.head_dim * shape.element_bytes
        return size / (SPEEDS[self.card].gb_per_s * 1e9 * share)


def calculated(card: str, model: str, gpus: int = 1) -> CostModel:
    """
    Return the costs of a model on a tensor-parallel group of cards.

    Args:
        card: A key of `READ_SHARES`.
        model: One of `tlt engine plan --model-shape`, a short name, or a directory with a config.json.
        gpus: Number of cards in the group.

    Raises:
        ConfigError: The card is unknown; the model is unknown, cannot be served, or cannot be sharded over this many
            cards.
    """
    if card not in READ_SHARES:
        raise ConfigError(f"--card is {card!r}; accepted: {', '.join(READ_SHARES)}", field="card")
    config = model_config(model)
    engine = EngineConfig(tensor_parallel=gpus, dtype="bfloat16")
    require_runnable(config, engine)
    shape = ModelShape.from_config(config, dtype="bfloat16", drafter=drafter_format(engine, config))
    return costs_of(Machine(card=card, gpus=gpus), shape, model)


def model_config(model: str) -> Mapping[str, Any]:
    """
    Return the config.json of a model by name or directory.

    Raises:
        ConfigError: The model is neither, or the file cannot be read.
    """
    name = NAMES.get(model.lower(), model.lower())
    if name in CONFIGS:
        return CONFIGS[name]
    if not Path(model).exists():
        known = ", ".join((*NAMES, *CONFIGS))
        raise ConfigError(f"--model is {model!r}; accepted: {known}, or a directory with a config.json", field="model")
    return read_config(Path(model))


def costs_of(machine: Machine, shape: ModelShape, model: str, engine: EngineOverhead = OWN) -> CostModel:
    """Return the costs of a shape on a machine, in an engine."""
    return _narrowed(_Calculation(machine=machine, shape=shape, model=model, engine=engine).costs())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Calculation:
    machine: Machine
    shape: ModelShape
    model: str
    engine: EngineOverhead

    def costs(self) -> CostModel:
        machine, shape = self.machine, self.shape
        fixed_s, least_s, most_s = (
            self.engine.round_s + machine.fixed_s(shape, *each)
            for each in ((), (LAYER_LEAST_S,), (LAYER_MOST_S, REDUCE_MOST_S))
        )
        # As bytes of weights that no token needs, plus those that one does.
        shared_s = self._situation.verification_s(0)
        experts_s = machine.speed.seconds(self._expert_bytes, 0) / machine.gpus
        token_s = machine.row_s(shape.active_parameters + shape.vocab * shape.hidden)
        prompt_s = machine.speed.seconds(0, 2 * shape.active_parameters) / machine.gpus
        kv_s = machine.kv_token_s(shape)
        rate = learned_tokens_s(shape.drafter, shape, SPEEDS[machine.card])
        rates = f"bytes at {READ_SHARES[machine.card]:.0%} of the {machine.card}'s bandwidth"
        operations = f"operations at {ROW_SHARE:.0%} of the {machine.card}'s dense rate"
        fit = "fits published rounds best, with one calibration for all"
        engine = "fits published speedups best (costs.published.speculation)"
        return CostModel(
            device=machine.card if machine.gpus == 1 else f"{machine.gpus} x {machine.card}",
            model=self.model,
            round_fixed_s=_between(fixed_s, least_s, most_s, f"{LAYER_S * 1e6:.0f} us a layer, which {fit}"),
            round_request_s=_between(REQUEST_S, REQUEST_LEAST_S, REQUEST_MOST_S, fit),
            round_read_s=_spread(shared_s, 1 / (1 + READ_SPREAD), 1 + READ_SPREAD, rates),
            expert_read_s=_spread(experts_s, 1 / (1 + READ_SPREAD), 1 + READ_SPREAD, rates),
            expert_share=CostFigure(
                value=0.0 if shape.experts is None else shape.experts.chosen / shape.experts.count,
                source=Source.CALCULATED,
                of="experts that a token chooses",
            ),
            round_token_s=_computed(token_s, operations),
            kv_token_s=_read(kv_s, "bytes of keys and values"),
            draft_fixed_s=self._draft_fixed(),
            draft_token_s=_computed(machine.row_s(self._situation.draft_bytes() / shape.element_bytes), operations),
            draft_kv_token_s=self._draft_kv(),
            draft_round_s=_spread(self.engine.draft_round_s, self.engine.least, self.engine.most, engine),
            draft_request_s=_spread(self.engine.draft_request_s, self.engine.least, self.engine.most, engine),
            ngram_round_s=CostFigure(
                value=NGRAM_ROUND_S, low=0.0, high=NGRAM_ROUND_MOST_S, source=Source.ASSUMED, of="no overlap"
            ),
            ngram_request_s=CostFigure(
                value=NGRAM_REQUEST_S,
                low=NGRAM_REQUEST_LEAST_S,
                high=NGRAM_REQUEST_MOST_S,
                source=Source.PUBLISHED,
                of="0.6 % of a verification (arXiv 2601.11580)",
            ),
            prefill_token_s=_computed(prompt_s, f"operations at {COMPUTE_SHARE:.0%} of the dense rate"),
            accept_start=learning.ACCEPT_START,
            accept_best=learning.ACCEPT_BEST,
            accept_decay=learning.ACCEPT_DECAY,
            ngram_accept=learning.NGRAM_ACCEPT,
            learn_tokens_s=_spread(rate, 0.4, 1.5, "operations of the trainer's loss and optimizer"),
            learn_half_tokens=learning.LEARN_HALF_TOKENS,
            ageing=learning.AGEING,
            lease_start_s=learning.LEASE_START_S,
            lease_stop_s=learning.LEASE_STOP_S,
            drafter_load_s=self._drafter_load(),
            update_s=self._update(),
            state_bytes=CostFigure(
                value=self.shape.captured_bytes / self.shape.element_bytes * STATE_BITS / 8,
                source=Source.CALCULATED,
                of=f"the model's hidden size, {STATE_BITS} bits an element",
            ),
        )

    @property
    def _situation(self) -> Situation:
        return Situation(shape=self.shape, speed=self.machine.speed, context=0, ranks=self.machine.gpus)

    @property
    def _expert_bytes(self) -> float:
        """Return the bytes of all routed experts: the difference between a pass of a million tokens and of none."""
        return (self.shape.read_parameters(10**6) - self.shape.read_parameters(0)) * self.shape.element_bytes

    def _draft_fixed(self) -> CostFigure:
        read_s = self._situation.drafting_s(1)
        engine = self.engine
        reduced_s = engine.pass_reduce_s if self.machine.gpus > 1 else 0.0
        return CostFigure(
            value=read_s + PASS_S + reduced_s,
            low=read_s / (1 + READ_SPREAD) + PASS_LEAST_S + engine.least * reduced_s,
            high=read_s * (1 + READ_SPREAD) + PASS_MOST_S + engine.most * reduced_s,
            source=Source.CALCULATED,
            of="bytes of the drafter's layer and of the head's rows that engines draft from, and launches, which fit "
            "published speedups best",
        )

    def _draft_kv(self) -> CostFigure:
        drafter = self.shape.drafter
        heads = max(1, drafter.kv_heads // self.machine.gpus)
        size = 2 * drafter.layers * heads * drafter.head_dim * self.shape.element_bytes
        return _read(
            size / (SPEEDS[self.machine.card].gb_per_s * 1e9 * KV_SHARE), "bytes of the drafter's keys and values"
        )

    def _drafter_load(self) -> CostFigure:
        seconds = self.shape.drafter_bytes(self.machine.gpus) / HOST_BYTES_S
        return CostFigure(
            value=seconds, low=seconds / 2, high=4 * seconds, source=Source.CALCULATED, of="its bytes over PCIe"
        )

    def _update(self) -> CostFigure:
        seconds = UPDATE_S + UPDATE_BYTE_S * self.shape.parameters * self.shape.element_bytes
        return CostFigure(
            value=seconds,
            low=seconds / 2,
            high=8 * seconds,
            source=Source.CALCULATED,
            of="checkpoint-engine's published times by bytes of the model; other ways are slower",
        )


def _between(value: float, low: float, high: float, of: str) -> CostFigure:
    return CostFigure(value=value, low=low, high=high, source=Source.CALCULATED, of=of)


def _narrowed(costs: CostModel) -> CostModel:
    """Return costs with the intervals of rounds times `WIDTH`."""
    changed = {}
    for name, figure in costs.figures():
        if name in ROUND_COSTS:
            low, high = (figure.value + WIDTH * (end - figure.value) for end in (figure.least, figure.most))
            changed[name] = figure.model_copy(update={"low": low, "high": high})
    return costs.model_copy(update=changed)


def _computed(seconds: float, of: str) -> CostFigure:
    return _spread(seconds, ROW_SHARE / ROW_MOST, ROW_SHARE / ROW_LEAST, of)


def _read(seconds: float, of: str) -> CostFigure:
    return _spread(seconds, KV_SHARE / KV_MOST, KV_SHARE / KV_LEAST, of)


def _spread(value: float, least: float, most: float, of: str) -> CostFigure:
    return _between(value, value * least, value * most, of)
