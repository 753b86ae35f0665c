"""
Cost models of cards and models without measurements, calculated from bytes and operations. Pure.

Durations of rounds are those of `tlt engine plan --rounds` (`tlt_worker.capacity.rounds`), with intervals. `compared`
has their errors, which `tlt simulate cases --held-out` prints.
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
from tlt_worker.capacity.rounds import (
    KV_SHARE,
    LAYER_S,
    OWN,
    ROW_SHARE,
    EngineOverhead,
    Machine,
)
from tlt_worker.capacity.shape import ModelShape
from tlt_worker.checkpoints.drafter_format import drafter_format
from tlt_worker.checkpoints.model_config import read_config
from tlt_worker.commands.cards import CONFIGS, READ_SHARES, SPEEDS
from tlt_worker.engine_config import EngineConfig
from tlt_worker.model.requirements import require_runnable

READ_SPREAD: Final = 0.1
"""Shares of the bandwidth this much smaller or larger fit published rounds nearly as well."""
KV_LEAST, KV_MOST = 0.35, 0.9
"""Ends of the interval of `KV_SHARE`."""
ROW_LEAST, ROW_MOST = 0.55, 0.85
LAYER_LEAST_S, LAYER_MOST_S = 25e-6, 60e-6
REDUCE_MOST_S: Final = 20e-6
REQUEST_LEAST_S, REQUEST_MOST_S = 10e-6, 50e-6
"""Published rounds contain prefills of others, so that a request may take less."""
PASS_LEAST_S, PASS_MOST_S = 100e-6, 800e-6
NGRAM_ROUND_MOST_S: Final = 2e-3
NGRAM_REQUEST_LEAST_S, NGRAM_REQUEST_MOST_S = 5e-6, 100e-6
PREFILL_SHARE: Final = 0.6
"""Assumed share of a card's dense rate that prefills reach."""
WIDTH: Final = 0.95
"""
Factor on both sides of all intervals of `ROUND_COSTS`: the least, in hundredths, for which the 90 % intervals of
speedups contain nine in ten of the fitted ones (`compared`). If it is chosen without one source at a time, intervals
contain 20 of the 23 speedups of the sources that were left out.
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


ENGINES: Final[Mapping[str, EngineOverhead]] = {
    "gpt-fast": EngineOverhead(),
    "sglang": EngineOverhead(round_s=0.4e-3, draft_round_s=3.7e-3, draft_request_s=41e-6, pass_reduce_s=510e-6),
    "vllm": EngineOverhead(round_s=1.0e-3, draft_round_s=1.5e-3, draft_request_s=18e-6),
    "tensorrt-llm": EngineOverhead(round_s=0.1e-3, draft_round_s=1.0e-3, draft_request_s=94e-6),
}
"""Fitted to published rounds and speedups, most of 2025."""
DRAFTING_LEAST, DRAFTING_MOST, OWN_DRAFTING_MOST = 0.3, 1.3, 2.5
"""Ends of the intervals of an engine's time for drafting, in units of it. The suite's reaches to SGLang's of 2025."""


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
    return costs_of(card, gpus, shape, model)


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


def costs_of(card: str, gpus: int, shape: ModelShape, model: str, engine: EngineOverhead = OWN) -> CostModel:
    """Return the costs of a shape on a tensor-parallel group of cards, in an engine."""
    return _narrowed(_Calculation(card=card, gpus=gpus, shape=shape, model=model, engine=engine).costs())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Calculation:
    card: str
    gpus: int
    shape: ModelShape
    model: str
    engine: EngineOverhead

    @property
    def _machine(self) -> Machine:
        return Machine(speed=SPEEDS[self.card], shape=self.shape, gpus=self.gpus)

    def costs(self) -> CostModel:
        machine, shape = self._machine, self.shape
        terms = machine.terms(self.engine)
        least_s, most_s = (
            self.engine.round_s + machine.fixed_s(*ends) for ends in ((LAYER_LEAST_S,), (LAYER_MOST_S, REDUCE_MOST_S))
        )
        prompt_s = 2 * shape.active_parameters / (machine.speed.tflops * 1e12 * PREFILL_SHARE) / self.gpus
        rate = learned_tokens_s(shape.drafter, shape, machine.speed)
        rates = f"bytes at {machine.speed.read_share:.0%} of the {self.card}'s bandwidth"
        operations = f"operations at {ROW_SHARE:.0%} of the {self.card}'s dense rate"
        fit = "fits published rounds best, with one calibration for all"
        return CostModel(
            device=self.card if self.gpus == 1 else f"{self.gpus} x {self.card}",
            model=self.model,
            round_fixed_s=_between(
                terms.round_fixed_s, least_s, most_s, f"{LAYER_S * 1e6:.0f} us a layer, which {fit}"
            ),
            round_request_s=_between(terms.round_request_s, REQUEST_LEAST_S, REQUEST_MOST_S, fit),
            round_read_s=_weights(terms.round_read_s, rates),
            expert_read_s=_weights(terms.expert_read_s, rates),
            expert_share=CostFigure(
                value=terms.expert_share, source=Source.CALCULATED, of="experts that a token chooses"
            ),
            round_token_s=_computed(terms.round_token_s, operations),
            kv_token_s=_read(terms.kv_token_s, "bytes of keys and values"),
            draft_fixed_s=self._draft_fixed(terms.draft_fixed_s),
            draft_token_s=_computed(terms.draft_token_s, operations),
            draft_kv_token_s=_read(terms.draft_kv_token_s, "bytes of the drafter's keys and values"),
            draft_step_s=_weights(terms.draft_step_s, "bytes of a block drafter's Markov head"),
            draft_round_s=self._of_engine(terms.draft_round_s),
            draft_request_s=self._of_engine(terms.draft_request_s),
            ngram_round_s=CostFigure(
                value=terms.ngram_round_s, low=0.0, high=NGRAM_ROUND_MOST_S, source=Source.ASSUMED, of="no overlap"
            ),
            ngram_request_s=CostFigure(
                value=terms.ngram_request_s,
                low=NGRAM_REQUEST_LEAST_S,
                high=NGRAM_REQUEST_MOST_S,
                source=Source.PUBLISHED,
                of="0.6 % of a verification (arXiv 2601.11580)",
            ),
            prefill_token_s=_computed(prompt_s, f"operations at {PREFILL_SHARE:.0%} of the dense rate"),
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
                value=shape.captured_bytes / shape.element_bytes * STATE_BITS / 8,
                source=Source.CALCULATED,
                of=f"the model's hidden size, {STATE_BITS} bits an element",
            ),
        )

    @property
    def _most(self) -> float:
        return OWN_DRAFTING_MOST if self.engine == OWN else DRAFTING_MOST

    def _of_engine(self, seconds: float) -> CostFigure:
        of = "fits published speedups best (costs.published.speculation)"
        return _spread(seconds, DRAFTING_LEAST, self._most, of)

    def _draft_fixed(self, seconds: float) -> CostFigure:
        read_s = self._machine.read_s(self._machine.draft_parameters)
        reduced_s = self.engine.pass_reduce_s if self.gpus > 1 else 0.0
        return CostFigure(
            value=seconds,
            low=read_s / (1 + READ_SPREAD) + PASS_LEAST_S + DRAFTING_LEAST * reduced_s,
            high=read_s * (1 + READ_SPREAD) + PASS_MOST_S + self._most * reduced_s,
            source=Source.CALCULATED,
            of="bytes of the drafter's layer and of the head's rows that engines draft from, and launches, which fit "
            "published speedups best",
        )

    def _drafter_load(self) -> CostFigure:
        seconds = self.shape.drafter_bytes(self.gpus) / HOST_BYTES_S
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


def _weights(seconds: float, of: str) -> CostFigure:
    return _spread(seconds, 1 / (1 + READ_SPREAD), 1 + READ_SPREAD, of)


def _read(seconds: float, of: str) -> CostFigure:
    return _spread(seconds, KV_SHARE / KV_MOST, KV_SHARE / KV_LEAST, of)


def _spread(value: float, least: float, most: float, of: str) -> CostFigure:
    return _between(value, value * least, value * most, of)
