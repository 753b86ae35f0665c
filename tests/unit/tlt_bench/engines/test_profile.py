"""What a Chrome trace of a scheduler says of its rounds."""

import pytest

from tlt_bench.engines.profile import Event, profile_of
from tlt_common.errors import EngineError


def event(name: str, category: str, at: float, length: float = 1.0) -> Event:
    return {"ph": "X", "name": name, "cat": category, "ts": at, "dur": length}


def rounds_on_a_gpu(count: int) -> list[Event]:
    """Rounds of 100 us: a graph of two kernels, a copy, and a wait of 20 us; the host returns to the loop meanwhile."""
    found: list[Event] = [{"ph": "M", "name": "process_name"}]
    for place in range(count):
        at = 1000.0 + 100 * place
        found += [
            event("step[VERIFY bs=1]", "user_annotation", at),
            event("step[DRAFT bs=1]", "user_annotation", at + 50),
            event("step[VERIFY bs=1]", "gpu_user_annotation", at),
            event("cudaGraphLaunch", "cuda_runtime", at + 1),
            event("cudaMemcpyAsync", "cuda_runtime", at + 3),
            event("cudaStreamSynchronize", "cuda_runtime", at + 10, 20.0),
            event("cudaEventQuery", "cuda_runtime", at + 40),
            event("gemm", "kernel", at + 5, 30.0),
            event("norm", "kernel", at + 40, 10.0),
            event("Memcpy DtoH", "gpu_memcpy", at + 60, 10.0),
        ]
    return found


def test_whole_rounds_are_averaged() -> None:
    found = profile_of(rounds_on_a_gpu(5), on_gpu=True)
    assert (found.rounds, found.kernels, found.launches, found.syncs) == (4, 3, 2, 1)
    assert found.host_ms == pytest.approx(0.08)
    assert found.device_share == pytest.approx(0.5)


def test_what_precedes_the_first_round_and_what_follows_the_last_does_not_count() -> None:
    noise = [event("prefill", "kernel", 10.0), event("cudaDeviceSynchronize", "cuda_runtime", 5000.0)]
    assert profile_of([*noise, *rounds_on_a_gpu(5)], on_gpu=True) == profile_of(rounds_on_a_gpu(5), on_gpu=True)


def test_on_a_cpu_operators_count() -> None:
    steps = [event("step[DECODE bs=2]", "user_annotation", at) for at in (0.0, 10.0, 20.0)]
    operators = [event("aten::mm", "cpu_op", at) for at in (1.0, 2.0, 11.0, 12.0, 21.0)]
    found = profile_of([*steps, *operators], on_gpu=False)
    assert (found.rounds, found.kernels, found.launches, found.device_share) == (2, 2, 2, 0)


def test_a_trace_without_rounds_is_refused() -> None:
    with pytest.raises(EngineError, match="1 passes of the target"):
        profile_of(rounds_on_a_gpu(1), on_gpu=True)
