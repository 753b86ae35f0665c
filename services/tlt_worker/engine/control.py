"""Controls a running SGLang engine: the only module that calls it."""

import asyncio
import atexit
import ctypes
import importlib
import os
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import entry_points
from typing import Any

from torch import Tensor

from tlt_common.domain.prompt import Prompt
from tlt_common.errors import (
    DrainingError,
    EngineError,
    InvalidRequestError,
    RequestFailedError,
    TltError,
    WeightsError,
)
from tlt_worker.engine.drafter_load import replace_drafter
from tlt_worker.engine.pausing import Paused
from tlt_worker.engine.policy_load import PolicyFiles, replace_policy
from tlt_worker.link.request_id import sglang_rid

Deliver = Callable[[dict[str, Any] | TltError], object]

_SIG_IGN = 1
IDLE_LOOKS, IDLE_LOOK_S = 50, 0.1
"""Number and interval in seconds of the checks whether an engine without requests is idle."""


class Control:
    """
    Calls SGLang's tokenizer side, which runs on the loop of the thread that launched it.

    Coroutine methods may be awaited on any loop.
    """

    def __init__(self, engine: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._engine = engine
        self._loop = loop
        self._update = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closing = False
        self._death: asyncio.Future[str] = loop.create_future()
        self._pauses: set[str] = set()
        for pid in self.child_pids():
            # A pidfd is readable once the process has exited, and never refers to another process.
            handle = os.pidfd_open(pid)
            loop.add_reader(handle, self._ended, handle, pid)

    @classmethod
    def launch(cls, arguments: dict[str, Any], enter: Callable[[str], object] = lambda _: None) -> "Control":
        """
        Start SGLang's processes and wait until the model is loaded. Call it on the thread whose loop will serve.

        `enter` is called with each phase of the start before the scheduler process reports its own.

        Raises:
            EngineError: SGLang rejected the arguments, or a process died while loading.
        """
        _ignore_sigquit()
        loop = asyncio.get_event_loop_policy().get_event_loop()
        try:
            enter("importing SGLang")
            from sglang.srt.entrypoints.engine import Engine

            # SGLang would swallow an import error of the plug-in and fail later, elsewhere.
            _plugin().check_importable()
            enter("importing SGLang in its scheduler process")
            engine = _without_detokenizer(Engine)(**arguments)
        except Exception as error:  # any exception means that the engine did not start
            raise EngineError(f"SGLang did not start: {error}") from error
        # SGLang's exit handler would kill every child of this process, including the trainer and the guard.
        atexit.unregister(engine.shutdown)
        return cls(engine, loop)

    def child_pids(self) -> list[int]:
        """Return the process ids of the schedulers."""
        pids: list[int] = self._engine.get_all_child_pids()
        return pids

    @property
    def running(self) -> int:
        """Number of requests that the engine has accepted and not answered."""
        return len(self._tasks)

    @property
    def paused(self) -> bool:
        """Whether generation is paused for new weights."""
        return bool(self._pauses)

    def kill(self, why: str) -> None:
        """Kill SGLang's processes. `died` and all requests report `why`."""

        def end() -> None:
            if not self._death.done():
                self._death.set_result(why)
            for pid in self.child_pids():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._cancel_all()  # a process that waits for a driver may outlive the signal

        self._loop.call_soon_threadsafe(end)

    def generate(self, prompt: Prompt, *, params: dict[str, Any], deliver: Deliver) -> None:
        """Start a request; `deliver` gets each output, or the error that ended it, on the engine's thread."""

        def begin() -> None:
            if self._death.done():
                # Not the error of requests that ran when it died: gateways count how many engines a request has ended.
                deliver(DrainingError(f"the engine has ended: {self._death.result()}"))
                return
            task = self._loop.create_task(self._stream(prompt, params, deliver), name=prompt.request_id)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        self._loop.call_soon_threadsafe(begin)

    def abort(self, rid: str) -> None:
        """Abort a request if it is running."""
        if not self._is_closing:
            self._loop.call_soon_threadsafe(self._engine.tokenizer_manager.abort_request, rid)

    async def load_policy(self, new: PolicyFiles, *, served: PolicyFiles) -> None:
        """
        Replace the target's weights with requests in flight. On failure, load the `served` weights again.

        Raises:
            WeightsError: SGLang could not load them. The served weights are loaded.
            EngineError: SGLang could not load the served ones either; the engine is killed, since its weights may be
                mixed.
        """
        await self._on_loop(self._load_policy(new, served))

    async def load_drafter(self, tensors: list[tuple[str, Tensor]]) -> None:
        """
        Replace the drafter's weights with requests in flight.

        Raises:
            WeightsError: SGLang could not load them.
        """
        await self._on_loop(self._load_drafter(tensors))

    async def release_memory(self, tags: Sequence[str]) -> None:
        """
        Release memory while no request is running.

        Raises:
            EngineError: The scheduler does not become idle, or SGLang did not answer as it should.
        """
        await self._on_loop(self._release_memory(tags))

    async def resume_memory(self, tags: Sequence[str]) -> None:
        """
        Resume released memory.

        Raises:
            EngineError: SGLang did not answer as it should.
        """
        await self._on_loop(self._move_memory("resume_memory_occupation", "ResumeMemoryOccupationReqInput", tags))

    async def died(self) -> str:
        """Wait until one of SGLang's processes has exited unexpectedly; return which one."""

        async def wait() -> str:
            return await asyncio.shield(self._death)

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(wait(), self._loop))

    def close(self) -> None:
        """Stop SGLang's own watchdog and cancel all requests; the guard ends the processes."""
        self._is_closing = True
        if (watchdog := self._engine.tokenizer_manager._subprocess_watchdog) is not None:  # noqa: SLF001
            watchdog.stop()
        self._loop.call_soon_threadsafe(self._cancel_all)

    def _ended(self, handle: int, pid: int) -> None:
        self._loop.remove_reader(handle)
        os.close(handle)
        self._die(f"SGLang's process {pid} exited")

    def _die(self, why: str) -> None:
        if not self._death.done() and not self._is_closing:
            self._death.set_result(why)
        self._cancel_all()

    def _cancel_all(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()

    async def _on_loop(self, work: Any) -> None:
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def _stream(self, prompt: Prompt, params: dict[str, Any], deliver: Deliver) -> None:
        tokens, rid = [*prompt.token_ids, *prompt.prefix_token_ids], sglang_rid(prompt.request_id)
        own: dict[str, Any] = {"rid": rid, "cache_salt": prompt.cache_key or None}
        if prompt.routed_experts_start is not None:
            own |= {"return_routed_experts": True, "routed_experts_start_len": prompt.routed_experts_start}
        if (start := prompt.prompt_logprobs_start) is not None:
            # SGLang has no value for the token at the position that it is told.
            own["logprob_start_len"] = max(0, start - 1)
        try:
            outputs = await self._engine.async_generate(
                input_ids=tokens, sampling_params=params, return_logprob=True, stream=True, **own
            )
            async for output in outputs:
                deliver(output)
        except asyncio.CancelledError:
            deliver(EngineError(self._death.result() if self._death.done() else "the engine was closed"))
            raise
        except ValueError as error:  # of SGLang's own validation
            deliver(InvalidRequestError(f"the engine refused the request: {error}"))
        except Exception as error:  # noqa: BLE001 - converted: the caller waits for an output or an error
            deliver(RequestFailedError(f"the engine failed on the request: {type(error).__name__}: {error}"))

    async def _load_policy(self, new: PolicyFiles, served: PolicyFiles) -> None:
        # Retract, not in place: requests continue with a KV cache rebuilt under the new weights, so that every token's
        # probability is that of the version it is attributed to, and no prefix of the old weights is ever reused.
        manager = self._engine.tokenizer_manager
        async with self._update, Paused(manager, "retract", self._pauses):
            try:
                refusal = await replace_policy(self._load_from, new, served)
            except EngineError as error:
                self._die(error.message)  # before generation continues: its tokens would be of mixed weights
                raise
        if refusal:
            raise WeightsError(f"{new.directory}: {refusal}")

    async def _release_memory(self, tags: Sequence[str]) -> None:
        # The scheduler ends by an assertion if it is not idle, which it is a round after the last request has ended.
        # It flushes its cache only if it is.
        for _ in range(IDLE_LOOKS):
            if (await self._engine.tokenizer_manager.flush_cache()).success:
                break
            await asyncio.sleep(IDLE_LOOK_S)
        else:
            raise EngineError(f"the engine is not idle after {IDLE_LOOKS * IDLE_LOOK_S:g} s without a request")
        await self._move_memory("release_memory_occupation", "ReleaseMemoryOccupationReqInput", tags)

    async def _move_memory(self, call: str, message: str, tags: Sequence[str]) -> None:
        from sglang.srt.managers import io_struct

        async with self._update:
            try:
                await getattr(self._engine.tokenizer_manager, call)(getattr(io_struct, message)(tags=list(tags)))
            except Exception as error:  # SGLang's own, of any type
                raise EngineError(f"SGLang's {call} failed: {error}") from error

    async def _load_from(self, policy: PolicyFiles) -> str:
        from sglang.srt.managers.io_struct import UpdateWeightFromDiskReqInput

        request = UpdateWeightFromDiskReqInput(
            model_path=str(policy.directory),
            flush_cache=True,
            torch_empty_cache=False,
            weight_version=str(policy.version),
        )
        done, message, _ = await self._engine.tokenizer_manager.update_weights_from_disk(request)
        return "" if done else str(message or "no reason given")

    async def _load_drafter(self, tensors: list[tuple[str, Tensor]]) -> None:
        # In place, not retract: nothing the target computed changes, and without a pause the update would wait for
        # every running request to finish.
        manager, ranks = self._engine.tokenizer_manager, self._engine.server_args.tp_size
        async with self._update, Paused(manager, "in_place", self._pauses):
            refusal = await replace_drafter(manager, tensors, ranks=ranks)
        if refusal:
            raise WeightsError(f"the drafter was not loaded: {refusal}")


def _plugin() -> Any:
    """Return our plug-in's module as SGLang finds it: the worker process does not import `scheduler`."""
    (entry,) = entry_points(group="sglang.srt.plugins", name="tlt")
    return importlib.import_module(entry.module)


def _without_detokenizer(engine: type) -> type:
    """
    Return an engine class that does not start the detokenizer process.

    The scheduler sends token ids straight to the tokenizer side (`plugin.join_channels`). The process would cost a
    gigabyte of memory and twenty seconds at start, and never receive a message.
    """

    class WithoutDetokenizer(engine):  # type: ignore[misc] # SGLang is untyped
        @classmethod
        def _launch_detokenizer_subprocesses(cls, **_: Any) -> tuple[list[Any], list[str]]:
            return [], []

    return WithoutDetokenizer


def _ignore_sigquit() -> None:
    """
    Ignore SIGQUIT, which SGLang's children send to their parent when they fail.

    `died` reports the failure instead. Python sets signal handlers on the main thread only, and a Ray replica starts
    the engine on another thread, where the handler is set through the C library.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    else:
        libc = ctypes.CDLL(None)
        libc.signal.argtypes, libc.signal.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
        libc.signal(int(signal.SIGQUIT), _SIG_IGN)
