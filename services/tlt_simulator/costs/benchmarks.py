"""
Reads benchmark results of a machine: figures of `make gpu`, and result lines of plain SGLang.

In SGLang 0.5.23, `python -m sglang.bench_one_batch`, `bench_one_batch_server` and `bench_serving` write JSON lines
(`--result-filename`, `--output-file`). `bench_offline_throughput` has no batch size and therefore says nothing about
rounds.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tlt_common.documents import json_of
from tlt_common.domain.arm import OFF, Arm, arm_named
from tlt_common.errors import ConfigError

GRID_CONTEXT: Final = 64
"""Tokens of a request in the grid of `make gpu`: hard prompts of the demo, and half of 32 or 64."""
ACCEPTED: Final = (
    "the directory reports/gpu or a NAME.figures.json of `make gpu`, or the result lines of SGLang's bench_one_batch, "
    "bench_one_batch_server or bench_serving, without speculation"
)
_OFF = re.compile(r"off_round_ms_bs(\d+)")
_COST = re.compile(r"cost_(.+)_bs(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRound:
    """A round of a benchmark."""

    arm: Arm = OFF
    batch: float
    kv_tokens: float
    """KV cache tokens of all requests."""
    seconds: float


@dataclass(slots=True)
class Benchmarks:
    """All results found."""

    rounds: list[MeasuredRound] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)
    """Other numbers, by name in the cost model."""
    sources: set[str] = field(default_factory=set)
    """Names of the benchmarks."""


def benchmarks_in(path: Path) -> Benchmarks:
    """
    Read a file of results, or a directory with those of `make gpu`.

    Raises:
        ConfigError: A file is neither; the message names file, line and field, and what is accepted.
    """
    found = Benchmarks()
    files = sorted(path.glob("*.figures.json")) if path.is_dir() else [path]
    for file in files:
        try:
            text = file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise _refused(str(file), f"cannot be read: {error}", "calibrate") from error
        _read(file, text, found)
    if not found.rounds and not found.figures:
        raise _refused(str(path), "has nothing that a cost model contains", "calibrate")
    return found


def _read(file: Path, text: str, found: Benchmarks) -> None:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        where = f"{file}:{number}"
        try:
            values = json_of(line.encode())
        except ValueError as error:
            raise _refused(where, f"is not a JSON object: {error}", "calibrate") from error
        if not isinstance(values, dict):
            raise _refused(where, "is not a JSON object", "calibrate")
        _line(where, values, file, found)


def _line(where: str, values: Mapping[str, Any], file: Path, found: Benchmarks) -> None:
    if isinstance(values.get("figures"), dict):
        _figures(where, values, file.name.removesuffix(".figures.json"), found)
    elif "median_decode_latency" in values:
        _one_batch(where, values, found)
    elif "last_ttft" in values:
        _one_batch_server(where, values, found)
    elif "median_tpot_ms" in values:
        _serving(where, values, found)
    else:
        raise _refused(where, "has none of median_decode_latency, last_ttft, median_tpot_ms and figures", "calibrate")


def _figures(where: str, values: Mapping[str, Any], part: str, found: Benchmarks) -> None:
    figures, notes = values["figures"], values.get("notes")
    plain_s = {
        int(match[1]): _number(where, notes, name) / 1e3
        for name in (notes if isinstance(notes, dict) else {})
        if (match := _OFF.fullmatch(name))
    }
    for batch, seconds in plain_s.items():
        found.rounds.append(MeasuredRound(batch=batch, kv_tokens=batch * GRID_CONTEXT, seconds=seconds))
    for name in figures:
        if (match := _COST.fullmatch(name)) and int(match[2]) in plain_s:
            batch = int(match[2])
            seconds = _number(where, figures, name) * plain_s[batch]
            arm = arm_named(match[1])
            found.rounds.append(MeasuredRound(arm=arm, batch=batch, kv_tokens=batch * GRID_CONTEXT, seconds=seconds))
    for name, of, scale in (
        ("learn_tokens_s", "tokens_per_s", 1.0),
        ("lease_start_s", "grant_ms_p50", 1e-3),
        ("lease_stop_s", "revoke_ms_p50", 1e-3),
    ):
        if of in figures and (of != "tokens_per_s" or part == "training"):
            found.figures[name] = _number(where, figures, of) * scale
    found.sources.add(f"make gpu ({part})")


def _one_batch(where: str, values: Mapping[str, Any], found: Benchmarks) -> None:
    batch, prompt = _number(where, values, "batch_size"), _number(where, values, "input_len")
    context = prompt + _number(where, values, "output_len") / 2.0
    seconds = _number(where, values, "median_decode_latency")
    found.rounds.append(MeasuredRound(batch=batch, kv_tokens=batch * context, seconds=seconds))
    found.figures["prefill_token_s"] = _number(where, values, "prefill_latency") / (batch * prompt)
    found.sources.add("bench_one_batch")


def _one_batch_server(where: str, values: Mapping[str, Any], found: Benchmarks) -> None:
    _require_plain(where, values, "acc_length")
    batch, prompt = _number(where, values, "batch_size"), _number(where, values, "input_len")
    context = prompt + _number(where, values, "output_len") / 2.0
    seconds = batch / _number(where, values, "output_throughput")
    found.rounds.append(MeasuredRound(batch=batch, kv_tokens=batch * context, seconds=seconds))
    found.figures["prefill_token_s"] = 1.0 / _number(where, values, "input_throughput")
    found.sources.add("bench_one_batch_server")


def _serving(where: str, values: Mapping[str, Any], found: Benchmarks) -> None:
    _require_plain(where, values, "accept_length")
    requests, batch = _number(where, values, "completed"), _number(where, values, "concurrency")
    prompt = _number(where, values, "total_input_tokens") / requests
    context = prompt + _number(where, values, "total_output_tokens") / requests / 2.0
    seconds = _number(where, values, "median_tpot_ms") / 1e3
    found.rounds.append(MeasuredRound(batch=max(1.0, batch), kv_tokens=batch * context, seconds=seconds))
    found.sources.add("bench_serving")


def _require_plain(where: str, values: Mapping[str, Any], name: str) -> None:
    length = values.get(name)
    if isinstance(length, int | float) and length > 1.0:
        raise _refused(where, f"{name} is {length}: rounds drafted", name)


def _number(where: str, values: Any, name: str) -> float:
    value = values.get(name)
    try:
        number = float(value) if not isinstance(value, bool) else 0.0
    except (TypeError, ValueError):
        number = 0.0
    if not 0.0 < number < float("inf"):
        raise _refused(where, f"{name} is {value!r}; it must be a number above 0", name)
    return number


def _refused(where: str, what: str, name: str) -> ConfigError:
    return ConfigError(f"--calibrate: {where}: {what}; accepted: {ACCEPTED}", field=name)
