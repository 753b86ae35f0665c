"""Activity of the scheduler in a round, from SGLang's profiler."""

import asyncio
import gzip
import json
import re
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tlt_bench.engines.commands import RoundProfile
from tlt_common.errors import EngineError
from tlt_worker.engine.sglang import SglangEngine

TRACE_S: Final = 120.0
"""Timeout of the trace, in seconds: some rounds, and writing a file of megabytes."""
LOOK_S: Final = 0.2
TARGET: Final = re.compile(r"step\[(DECODE|VERIFY)\b")
"""SGLang's names of the target's passes while it decodes (`build_step_span_name`); the drafter's are others."""
DEVICE: Final = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
LAUNCH: Final = re.compile(r"cu(da)?(Launch|GraphLaunch|Memcpy\w*Async|Memset\w*Async)")
WAIT: Final = re.compile(r"cu(da)?(\w*Synchronize|StreamWaitValue|Memcpy$|MemcpyDtoH\w*$)")

Event = Mapping[str, Any]


async def record(engine: SglangEngine, rounds: int, begun: asyncio.Event, *, on_gpu: bool) -> RoundProfile:
    """
    Record rounds once `begun` is set.

    Raises:
        EngineError: SGLang wrote no trace.
    """
    from sglang.srt.managers.io_struct import ProfileReq

    await begun.wait()
    with tempfile.TemporaryDirectory(prefix="tlt-bench-") as directory:
        # Services do not profile, so `Control` has no method for it.
        control = engine._need_control()  # noqa: SLF001
        start = control._engine.tokenizer_manager.start_profile  # noqa: SLF001
        request = ProfileReq(
            output_dir=directory,
            num_steps=rounds,
            activities=["CPU", "GPU"] if on_gpu else ["CPU"],
            with_stack=False,
            record_shapes=False,
        )
        await control._on_loop(start(request))  # noqa: SLF001
        events = await _trace(Path(directory))
    return profile_of(events, on_gpu=on_gpu)


async def _trace(directory: Path) -> list[Event]:
    for _ in range(round(TRACE_S / LOOK_S)):
        if found := await asyncio.to_thread(_read, directory):
            return found
        await asyncio.sleep(LOOK_S)
    raise EngineError(f"SGLang wrote no trace within {TRACE_S:.0f} s")


def _read(directory: Path) -> list[Event]:
    for file in directory.rglob("*.trace.json.gz"):
        with suppress(EOFError, ValueError, OSError):  # it is being written
            found: list[Event] = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
            return found
    return []


def profile_of(events: Iterable[Event], *, on_gpu: bool) -> RoundProfile:
    """
    Return the average activity of a round, from a Chrome trace of torch's profiler. Pure.

    Only the part between the first and the last pass of the target counts, so that only whole rounds do.
    """
    timed = [event for event in events if event.get("ph") == "X"]
    starts = sorted(event["ts"] for event in timed if TARGET.match(event["name"]) and event["cat"] == "user_annotation")
    if len(starts) < 2:
        raise EngineError(f"the trace has {len(starts)} passes of the target; at least 2 are needed")
    began, ended, rounds = starts[0], starts[-1], len(starts) - 1
    inside = [event for event in timed if began <= event["ts"] < ended]
    operators = [event for event in inside if event["cat"] == "cpu_op"]
    device = [event for event in inside if event["cat"] in DEVICE] if on_gpu else operators
    calls = [event for event in inside if event["cat"] in {"cuda_runtime", "cuda_driver"}]
    waits = [event for event in calls if WAIT.match(event["name"])]
    launches = [event for event in calls if LAUNCH.match(event["name"])] if on_gpu else operators
    waited_us = sum(event["dur"] for event in waits)
    busy_us = sum(event["dur"] for event in device) if on_gpu else 0.0
    return RoundProfile(
        rounds=rounds,
        kernels=len(device) / rounds,
        launches=len(launches) / rounds,
        syncs=len(waits) / rounds,
        host_ms=(ended - began - waited_us) / rounds / 1000,
        device_share=min(1.0, busy_us / (ended - began)),
    )
