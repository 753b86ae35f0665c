"""
Cost models of cards and models without measurements, calculated from bytes and operations. Pure.

Bytes and operations are those of `tlt engine plan --rounds`. Utilizations of a card's published rates, and the fixed
time of a round, are chosen to fit the rounds in `published` best, with a single calibration: the mean error is 6 %, the
largest 20 % (`errors`, asserted by a test).
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
from tlt_simulator.costs.published.rounds import PUBLISHED_ROUNDS, PUBLISHED_SHAPES, PublishedRound
from tlt_simulator.costs.trainer_rate import learned_tokens_s
from tlt_worker.capacity.rounds import COMPUTE_SHARE, READ_SHARE, Situation, Speed
from tlt_worker.capacity.shape import ModelShape
from tlt_worker.checkpoints.drafter_format import drafter_format
from tlt_worker.checkpoints.model_config import read_config
from tlt_worker.commands.cards import CONFIGS, SPEEDS
from tlt_worker.engine_config import EngineConfig
from tlt_worker.model.requirements import require_runnable

READ_SHARES: Final = {"a100-80": 0.75, "h100": 0.90, "h200": 0.90, "b200": 0.75}
"""Share of a card's bandwidth at which weights are read. The H200's is the H100's: nothing was found for it."""
READ_SPREAD: Final = 0.1
"""Shares this much smaller or larger fit nearly as well."""
KV_SHARE, KV_LEAST, KV_MOST = 0.5, 0.35, 0.9
"""Utilization for keys and values: of published slopes one gives 0.39 (30B-A3B, A100), one 0.99 (72B, H100)."""
COMPUTE_LEAST, COMPUTE_MOST = 0.45, 0.75
"""Around `COMPUTE_SHARE`, which is assumed: no published row is limited by computing alone."""
LAYER_S, LAYER_LEAST_S, LAYER_MOST_S = 54e-6, 35e-6, 75e-6
"""Kernels of a layer, beyond what they read: their beginnings and ends within a CUDA graph."""
EXPERT_LAYER_S: Final = 31e-6
"""More of them in a layer with experts."""
REDUCE_S, REDUCE_MOST_S = 5e-6, 20e-6
"""Each of a layer's two sums over ranks, on NVLink. It fits small, since the time of waiting ranks is in `LAYER_S`."""
REQUEST_S, REQUEST_LEAST_S, REQUEST_MOST_S = 45e-6, 10e-6, 60e-6
"""Sampling and scheduling of a request; published rounds contain prefills of others, so that it may be less."""
DRAFT_PASS_S, DRAFT_PASS_LEAST_S, DRAFT_PASS_MOST_S = 700e-6, 50e-6, 1e-3
"""Launches of a pass of the drafter: a layer, the head, a draw. It fits the speedups that the TLT paper publishes best
(`tlt simulate --case paper`), which are SGLang's of 2025; with CUDA graphs for all of a chain it may be far less."""
DRAFT_CONTEXT: Final = 4096
"""Tokens that the drafter's attention reads for each request, in a calculated pass."""
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
    return _Calculation(machine=Machine(card=card, gpus=gpus), shape=shape, model=model).costs()


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


def errors() -> dict[PublishedRound, float]:
    """Return the relative error of each published round."""
    return {row: _calculated_s(row) / (row.ms / 1e3) - 1.0 for row in PUBLISHED_ROUNDS}


def _calculated_s(row: PublishedRound) -> float:
    shape, machine = PUBLISHED_SHAPES[row.model], Machine(card=row.card, gpus=row.gpus)
    verified_s = Situation(shape=shape, speed=machine.speed, batch=row.batch, context=0, ranks=row.gpus).verification_s(
        1
    )
    kv_s = machine.kv_token_s(shape) * row.batch * row.context
    return machine.fixed_s(shape) + REQUEST_S * row.batch + verified_s + kv_s


@dataclass(frozen=True, slots=True, kw_only=True)
class _Calculation:
    machine: Machine
    shape: ModelShape
    model: str

    def costs(self) -> CostModel:
        machine, shape = self.machine, self.shape
        fixed_s = machine.fixed_s(shape)
        least_s, most_s = machine.fixed_s(shape, LAYER_LEAST_S), machine.fixed_s(shape, LAYER_MOST_S, REDUCE_MOST_S)
        # As bytes of weights that no token needs, plus those that one does.
        shared_s = self._situation.verification_s(0)
        experts_s = machine.speed.seconds(self._expert_bytes, 0) / machine.gpus
        token_s = machine.speed.seconds(0, 2 * (shape.active_parameters + shape.vocab * shape.hidden)) / machine.gpus
        prompt_s = machine.speed.seconds(0, 2 * shape.active_parameters) / machine.gpus
        kv_s = machine.kv_token_s(shape)
        rate = learned_tokens_s(shape.drafter, shape, SPEEDS[machine.card])
        rates = f"bytes at {READ_SHARES[machine.card]:.0%} of the {machine.card}'s bandwidth"
        operations = f"operations at {COMPUTE_SHARE:.0%} of the {machine.card}'s dense rate"
        fit = "fits published rounds best, with one calibration for all"
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
            round_token_s=self._computed(token_s, operations),
            kv_token_s=_spread(kv_s, KV_SHARE / KV_MOST, KV_SHARE / KV_LEAST, "bytes of keys and values"),
            draft_fixed_s=self._draft_fixed(),
            draft_token_s=self._draft_token(operations),
            prefill_token_s=self._computed(prompt_s, operations),
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

    def _computed(self, seconds: float, of: str) -> CostFigure:
        return _spread(seconds, COMPUTE_SHARE / COMPUTE_MOST, COMPUTE_SHARE / COMPUTE_LEAST, of)

    def _draft_fixed(self) -> CostFigure:
        read_s = self._situation.drafting_s(1)
        reduced_s = 2 * REDUCE_S if self.machine.gpus > 1 else 0.0
        most_s = (2 * REDUCE_MOST_S if self.machine.gpus > 1 else 0.0) + DRAFT_PASS_MOST_S + read_s * (1 + READ_SPREAD)
        return CostFigure(
            value=read_s + reduced_s + DRAFT_PASS_S,
            low=read_s / (1 + READ_SPREAD) + DRAFT_PASS_LEAST_S,
            high=most_s,
            source=Source.CALCULATED,
            of="bytes of the drafter's layer and of the head's rows that engines draft from; launches assumed",
        )

    def _draft_token(self, of: str) -> CostFigure:
        drafter = self.shape.drafter
        heads = max(1, drafter.kv_heads // self.machine.gpus)
        kv_bytes = 2 * drafter.layers * heads * drafter.head_dim * self.shape.element_bytes * DRAFT_CONTEXT
        kv_s = kv_bytes / (SPEEDS[self.machine.card].gb_per_s * 1e9 * KV_SHARE)
        elements = self._situation.draft_bytes() / self.shape.element_bytes
        return self._computed(self.machine.speed.seconds(0, 2 * elements) / self.machine.gpus + kv_s, of)

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


def _spread(value: float, least: float, most: float, of: str) -> CostFigure:
    return _between(value, value * least, value * most, of)
