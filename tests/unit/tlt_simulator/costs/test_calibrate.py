"""Benchmarks that replace calculated costs."""

import json
from pathlib import Path
from typing import Any

import pytest

from tlt_bench.result import Result
from tlt_common.domain.arm import OFF, arm_named, chain
from tlt_common.errors import ConfigError
from tlt_simulator.costs.calibrate import calibrated
from tlt_simulator.costs.figure import Source
from tlt_simulator.costs.model import CostModel
from tlt_simulator.costs.roofline import calculated

COSTS = calculated("h100", "7b")
SLOWER = COSTS.model_copy(
    update={
        name: getattr(COSTS, name).model_copy(
            update={"value": getattr(COSTS, name).value * factor, "low": 0.0, "high": 1}
        )
        for name, factor in {"round_fixed_s": 1.6, "round_read_s": 1.2, "kv_token_s": 1.5, "draft_fixed_s": 2.0}.items()
    }
)
"""The machine that is measured."""


def one_batch(costs: CostModel, batch: int, prompt: int, **changes: Any) -> dict[str, Any]:
    """Return a line of SGLang's bench_one_batch on a machine with these costs."""
    return {
        "run_name": "default",
        "batch_size": batch,
        "input_len": prompt,
        "output_len": 32,
        "prefill_latency": 2 * costs.prefill_token_s.value * batch * prompt,
        "prefill_throughput": 1.0,
        "median_decode_latency": costs.terms.round_s(OFF, batch, batch * (prompt + 16)),
        "median_decode_throughput": 1.0,
        "total_latency": 1.0,
        "overall_throughput": 1.0,
    } | changes


def lines(path: Path, *values: dict[str, Any]) -> Path:
    """Write a line each."""
    path.write_text("".join(json.dumps(one) + "\n" for one in values))
    return path


def test_rounds_of_bench_one_batch_come_out_as_measured(tmp_path: Path) -> None:
    situations = [(1, 256), (1, 16_384), (16, 1024), (64, 4096), (128, 256)]
    path = lines(tmp_path / "result.jsonl", *(one_batch(SLOWER, *situation) for situation in situations))
    found = calibrated(COSTS, path)
    for batch, prompt in situations:
        measured_s = SLOWER.terms.round_s(OFF, batch, batch * (prompt + 16))
        assert found.terms.round_s(OFF, batch, batch * (prompt + 16)) == pytest.approx(measured_s, rel=0.02)
        assert COSTS.terms.round_s(OFF, batch, batch * (prompt + 16)) < 0.9 * measured_s
    assert found.prefill_token_s.value == pytest.approx(2 * COSTS.prefill_token_s.value)
    for name in ("round_fixed_s", "round_read_s", "kv_token_s", "prefill_token_s"):
        figure = getattr(found, name)
        assert figure.source is Source.MEASURED, name
        assert "bench_one_batch: result.jsonl" in figure.of


def test_what_a_benchmark_does_not_tell_stays_as_calculated(tmp_path: Path) -> None:
    found = calibrated(COSTS, lines(tmp_path / "result.jsonl", one_batch(SLOWER, 1, 128)))
    assert found.kv_token_s == COSTS.kv_token_s
    assert found.draft_fixed_s == COSTS.draft_fixed_s
    assert found.accept_best == COSTS.accept_best


def test_one_round_is_enough_to_scale_what_it_consists_of(tmp_path: Path) -> None:
    found = calibrated(COSTS, lines(tmp_path / "result.jsonl", one_batch(SLOWER, 1, 128)))
    assert found.terms.round_s(OFF, 1, 144) == pytest.approx(SLOWER.terms.round_s(OFF, 1, 144), rel=0.02)


def test_lines_of_the_server_benchmarks_are_rounds_too(tmp_path: Path) -> None:
    round_s = SLOWER.terms.round_s(OFF, 8, 8 * 1040)
    server = {
        "run_name": "default", "batch_size": 8, "input_len": 1024, "output_len": 32, "latency": 1.0,
        "input_throughput": 30_000.0, "output_throughput": 8 / round_s, "last_ttft": 0.2, "acc_length": -1.0,
    }  # fmt: skip
    serving = {
        "backend": "sglang", "completed": 64, "concurrency": 8.0, "total_input_tokens": 64 * 1024,
        "total_output_tokens": 64 * 32, "median_tpot_ms": 1e3 * round_s, "accept_length": None,
    }  # fmt: skip
    for name, values in (("one", server), ("two", serving)):
        found = calibrated(COSTS, lines(tmp_path / name, values))
        assert found.terms.round_s(OFF, 8, 8 * 1040) == pytest.approx(round_s, rel=0.02)


def test_figures_of_make_gpu_tell_drafting_learning_and_leases(tmp_path: Path) -> None:
    plain_s = {batch: SLOWER.terms.round_s(OFF, batch, batch * 64) for batch in (1, 4)}
    grid = Result(
        name="engine",
        figures={
            f"cost_{arm}_bs{batch}": SLOWER.terms.round_s(arm_named(arm), batch, batch * 64) / plain_s[batch]
            for arm in ("chain-3", "chain-7")
            for batch in plain_s
        },
        spread={},
        repeats=1,
        notes={f"off_round_ms_bs{batch}": f"{1e3 * seconds:.4f}" for batch, seconds in plain_s.items()},
    )
    grid.write(str(tmp_path / "grid.figures.json"))
    lines(tmp_path / "training.figures.json", {"figures": {"tokens_per_s": 4321.0, "micro_step_ms_p99": 80.0}})
    lines(tmp_path / "lease.figures.json", {"figures": {"grant_ms_p50": 3.0, "revoke_ms_p50": 12.0}})
    found = calibrated(COSTS, tmp_path)
    assert found.learn_tokens_s.value == 4321.0
    assert (found.lease_start_s.value, found.lease_stop_s.value) == (0.003, 0.012)
    assert found.terms.round_s(chain(7), 4, 256) == pytest.approx(SLOWER.terms.round_s(chain(7), 4, 256), rel=0.03)
    assert found.draft_fixed_s.source is Source.MEASURED


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "has nothing that a cost model contains"),
        ("no json\n", r"result:1: is not a JSON object"),
        ("[1]\n", r"result:1: is not a JSON object"),
        ('{"total_latency": 3.0, "output_throughput": 100.0}\n', r"result:1: has none of median_decode_latency"),
        (json.dumps(one_batch(COSTS, 1, 128, batch_size=0)), r"result:1: batch_size is 0"),
        (json.dumps(one_batch(COSTS, 1, 128, median_decode_latency="fast")), r"median_decode_latency is 'fast'"),
        (
            json.dumps(one_batch(COSTS, 1, 128, prefill_latency=float("inf"))),
            r"is not a JSON object|prefill_latency is inf",
        ),
        (json.dumps(one_batch(COSTS, 1, 128) | {"prefill_latency": True}), r"prefill_latency is True"),
        (json.dumps({"last_ttft": 0.1, "acc_length": 3.2}), r"acc_length is 3.2: rounds drafted"),
        (json.dumps({"median_tpot_ms": 9.0, "accept_length": 2.5}), r"accept_length is 2.5: rounds drafted"),
        (json.dumps({"figures": {"cost_chain-3_bs1": 1.5}, "notes": {"off_round_ms_bs1": "x"}}), "off_round_ms_bs1"),
    ],
)
def test_a_file_that_is_neither_is_refused_by_name_and_field(tmp_path: Path, text: str, match: str) -> None:
    path = tmp_path / "result"
    path.write_text(text)
    with pytest.raises(ConfigError, match=match) as refused:
        calibrated(COSTS, path)
    assert "accepted: the directory reports/gpu" in str(refused.value)


def test_a_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing"):
        calibrated(COSTS, tmp_path / "nothing")
