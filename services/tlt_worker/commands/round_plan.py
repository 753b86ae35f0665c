"""`tlt engine plan --rounds`: calculated duration of a round for each kind of drafter."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from tlt_common.domain.arm import Arm, block, chain
from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.format import DrafterFormat
from tlt_common.drafter.reading import standard_format
from tlt_common.errors import ConfigError, WeightsError
from tlt_worker.capacity.rounds import Machine, RoundTime
from tlt_worker.capacity.shape import ModelShape
from tlt_worker.checkpoints.drafter_format import served_format
from tlt_worker.commands.cards import SPEEDS
from tlt_worker.engine_config import EngineConfig

DRAFTS = (3, 7)
BATCHES = (1, 4, 16)
CONTEXT = 8192
"""Tokens of a request, unless `engine.context_length` is smaller."""


def planned_rounds(engine: EngineConfig, model: Mapping[str, Any], card: str, dtype: str) -> list[RoundTime]:
    """
    Return rounds for all kinds of drafters that a model supports.

    Raises:
        ConfigError: The card is unknown, or the model's config.json lacks a size.
    """
    if card not in SPEEDS:
        raise ConfigError(
            f"--card is {card!r}, whose speed --rounds needs; accepted: {', '.join(SPEEDS)}", field="card"
        )
    shape, context = ModelShape.from_config(model, dtype=dtype), min(CONTEXT, engine.context_for(model))
    machines = {
        name: Machine(speed=SPEEDS[card], shape=shape.drafting(form), gpus=engine.tensor_parallel)
        for name, form in _forms(engine, model)
    }
    return [
        RoundTime.of(name, machine, _arm(machine, drafts), batch, context)
        for batch in BATCHES
        for name, machine in machines.items()
        for drafts in DRAFTS
    ]


def _arm(machine: Machine, drafts: int) -> Arm:
    """Return the arm with this many drafts, of those that the drafter can run."""
    return block(drafts) if machine.shape.drafter.queries else chain(drafts)


def _forms(engine: EngineConfig, model: Mapping[str, Any]) -> Iterator[tuple[str, DrafterFormat]]:
    for kind in DrafterArchitecture:
        try:
            form = standard_format(kind, model, draft_vocabulary=engine.draft_vocabulary, layers=engine.drafter_layers)
        except WeightsError:  # this model cannot have one
            continue
        served = served_format(form, engine)
        if served != form:
            yield f"{kind}, whole head", form
        yield str(kind), served


def show_rounds(rounds: list[RoundTime], card: str, json_to: str) -> None:
    """Print rounds as a table, or as JSON."""
    if json_to:
        entries = [asdict(each) | {"round_ms": each.round_ms, "over_plain": each.over_plain} for each in rounds]
        rounded = [{key: round(value, 4) if isinstance(value, float) else value for key, value in entry.items()}
                   for entry in entries]  # fmt: skip
        text = json.dumps({"card": card, "rounds": rounded})
    else:
        text = "\n".join(_lines(rounds, card))
    sys.stdout.write(text + "\n")


def _lines(rounds: Iterable[RoundTime], card: str) -> Iterator[str]:
    names = ("batch", "drafter", "drafts", "head tokens", "MB a draft pass", "ms a draft", "drafting", "verification",
             "round", "plain rounds")  # fmt: skip
    rows = [
        (
            str(one.batch), one.drafter, str(one.drafts), f"{one.head_tokens:,}", f"{one.draft_mb:,.0f}",
            f"{one.draft_ms:.3f}", f"{one.drafting_ms:.2f}", f"{one.verification_ms:.2f}", f"{one.round_ms:.2f}",
            f"{one.over_plain:.2f}",
        )
        for one in rounds
    ]  # fmt: skip
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    for row in (names, *rows):
        yield "  ".join(
            cell.ljust(width) if place == 1 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
    yield ""
    yield (
        f"Milliseconds on {card}, calculated as for `tlt simulate` (docs/costs.md), not measured. A drafter pays if it "
        "keeps more tokens than 'plain rounds'."
    )
