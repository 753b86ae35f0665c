"""The handle on a running SGLang: the only module that calls it."""

import asyncio
import atexit
import ctypes
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor

from tlt_common.domain.ids import PolicyVersion
from tlt_common.errors import EngineError, TltError, WeightsError
from tlt_worker.engine import plugin

Deliver = Callable[[dict[str, Any] | TltError], object]

_SIG_IGN = 1


class Control:
    """
    Calls SGLang's tokenizer side, which lives on the loop of the thread that launched it.

    Coroutine methods may be awaited on any loop.
    """

    def __init__(self, engine: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._engine = engine
        self._loop = loop
        self._update = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closing = False
        self._death: asyncio.Future[str] = loop.create_future()
        for pid in self.child_pids():
            # A descriptor of the process: readable once it ended, and never another process's.
            handle = os.pidfd_open(pid)
            loop.add_reader(handle, self._ended, handle, pid)

    @classmethod
    def launch(cls, arguments: dict[str, Any]) -> "Control":
        """
        Start SGLang's processes and wait until the model is loaded. Call it on the thread whose loop is to serve.

        Raises:
            EngineError: SGLang refused the arguments, or a process died while loading.
        """
        _ignore_sigquit()
        loop = asyncio.get_event_loop_policy().get_event_loop()
        try:
            from sglang.srt.entrypoints.engine import Engine

            # SGLang would swallow an error of the plug-in's imports and fail later, somewhere else.
            plugin.check_importable()
            engine = _without_detokenizer(Engine)(**arguments)
        except Exception as error:  # whatever SGLang raises means the same to us: no engine
            raise EngineError(f"SGLang did not start: {error}") from error
        # Its exit handler would kill every child of this process, the trainer and the guard included.
        atexit.unregister(engine.shutdown)
        return cls(engine, loop)

    def child_pids(self) -> list[int]:
        """Ids of the scheduler processes."""
        pids: list[int] = self._engine.get_all_child_pids()
        return pids

    def generate(self, *, rid: str, token_ids: list[int], params: dict[str, Any], deliver: Deliver) -> None:
        """Answer a prompt; `deliver` gets each output, or the error that ended it, on the engine's thread."""

        def begin() -> None:
            if self._death.done():
                deliver(EngineError(self._death.result()))
                return
            task = self._loop.create_task(self._stream(rid, token_ids, params, deliver), name=rid)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        self._loop.call_soon_threadsafe(begin)

    def abort(self, rid: str) -> None:
        """End a request, if it runs."""
        if not self._is_closing:
            self._loop.call_soon_threadsafe(self._engine.tokenizer_manager.abort_request, rid)

    async def load_policy(self, directory: Path, version: PolicyVersion) -> None:
        """
        Replace the target's weights with requests in flight.

        Raises:
            WeightsError: SGLang could not load them; it has gone back to those it had.
        """
        await self._on_loop(self._load_policy(directory, version))

    async def load_drafter(self, tensors: list[tuple[str, Tensor]]) -> None:
        """
        Replace the drafter's weights with requests in flight.

        Raises:
            WeightsError: SGLang could not load them.
        """
        await self._on_loop(self._load_drafter(tensors))

    async def died(self) -> str:
        """Wait until one of SGLang's processes has ended by itself; say which."""

        async def wait() -> str:
            return await asyncio.shield(self._death)

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(wait(), self._loop))

    def close(self) -> None:
        """Stop SGLang's own watching; the processes are ended by their guard."""
        self._is_closing = True
        if (watchdog := self._engine.tokenizer_manager._subprocess_watchdog) is not None:  # noqa: SLF001
            watchdog.stop()
        self._loop.call_soon_threadsafe(self._cancel_all)

    def _ended(self, handle: int, pid: int) -> None:
        self._loop.remove_reader(handle)
        os.close(handle)
        if not self._death.done() and not self._is_closing:
            self._death.set_result(f"SGLang's process {pid} ended")
        self._cancel_all()

    def _cancel_all(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()

    async def _on_loop(self, work: Any) -> None:
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def _stream(self, rid: str, token_ids: list[int], params: dict[str, Any], deliver: Deliver) -> None:
        try:
            outputs = await self._engine.async_generate(
                input_ids=token_ids, sampling_params=params, return_logprob=True, stream=True, rid=rid
            )
            async for output in outputs:
                deliver(output)
        except asyncio.CancelledError:
            deliver(EngineError(self._death.result() if self._death.done() else "the engine was closed"))
            raise
        except Exception as error:  # noqa: BLE001 - converted: the caller waits for an output or this
            deliver(EngineError(f"SGLang failed on request {rid!r}: {error}"))

    async def _load_policy(self, directory: Path, version: PolicyVersion) -> None:
        from sglang.srt.managers.io_struct import UpdateWeightFromDiskReqInput

        # Retract, not in place: requests go on from a cache rebuilt under the new weights, so that every token's
        # probability is that of the version it is attributed to, and no prefix of the old weights is ever reused.
        async with self._update, _Paused(self._engine.tokenizer_manager, "retract"):
            done, message, _ = await self._engine.tokenizer_manager.update_weights_from_disk(
                UpdateWeightFromDiskReqInput(
                    model_path=str(directory), flush_cache=True, torch_empty_cache=False, weight_version=str(version)
                )
            )
        if not done:
            raise WeightsError(f"{directory}: {message}")

    async def _load_drafter(self, tensors: list[tuple[str, Tensor]]) -> None:
        from sglang.srt.managers.io_struct import (
            BeginWeightUpdateReqInput,
            EndWeightUpdateReqInput,
            UpdateWeightsFromTensorReqInput,
        )
        from sglang.srt.utils import MultiprocessingSerializer

        manager, ranks = self._engine.tokenizer_manager, self._engine.server_args.tp_size
        request = UpdateWeightsFromTensorReqInput(
            # A copy per rank: each takes its own, and its part of it.
            serialized_named_tensors=[MultiprocessingSerializer.serialize(tensors) for _ in range(ranks)],
            flush_cache=False,
            selector="draft",
        )
        # In place, not retract: nothing the target computed changes, and without a pause the update would wait for
        # every running request to finish. No weight_version: it would overwrite the policy's.
        async with self._update, _Paused(manager, "in_place"):
            await manager.begin_weight_update(BeginWeightUpdateReqInput(selector="draft"))
            done, message = await manager.update_weights_from_tensor(request)
            await manager.end_weight_update(EndWeightUpdateReqInput())
        if not done:
            raise WeightsError(f"the drafter was not loaded: {message}")


def _without_detokenizer(engine: type) -> type:
    """
    Leave the detokenizer process out.

    The scheduler sends token ids straight to the tokenizer side (`plugin.join_channels`); the process would cost a
    gigabyte and twenty seconds of start-up, and wait for messages that never come.
    """

    class WithoutDetokenizer(engine):  # type: ignore[misc] # SGLang is untyped
        @classmethod
        def _launch_detokenizer_subprocesses(cls, **_: Any) -> tuple[list[Any], list[str]]:
            return [], []

    return WithoutDetokenizer


class _Paused:
    """Generation paused for the length of a block."""

    def __init__(self, manager: Any, mode: str) -> None:
        self._manager = manager
        self._mode = mode

    async def __aenter__(self) -> None:
        from sglang.srt.managers.io_struct import PauseGenerationReqInput

        await self._manager.pause_generation(PauseGenerationReqInput(mode=self._mode))

    async def __aexit__(self, *_: object) -> None:
        from sglang.srt.managers.io_struct import ContinueGenerationReqInput

        await self._manager.continue_generation(ContinueGenerationReqInput())


def _ignore_sigquit() -> None:
    """
    Keep SGLang's children from ending the worker: they send SIGQUIT to their parent when they fail.

    `died` reports the failure instead. Python sets handlers on the main thread only, and a Ray replica starts the
    engine on another, so the C library is asked.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    else:
        libc = ctypes.CDLL(None)
        libc.signal.argtypes, libc.signal.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
        libc.signal(int(signal.SIGQUIT), _SIG_IGN)
