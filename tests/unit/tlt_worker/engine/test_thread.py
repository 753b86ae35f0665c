"""The thread that SGLang's tokenizer side runs on."""

import asyncio
import threading

from tlt_worker.engine.thread import LoopThread


async def test_a_closed_thread_closes_its_loop() -> None:
    thread = LoopThread("test-loop")
    loop, runner = await thread.block(lambda: (asyncio.get_event_loop(), threading.current_thread()))
    thread.close()
    await asyncio.to_thread(runner.join, 10.0)
    assert loop.is_closed()
    thread.close()  # has no effect
