"""A worker with a real engine, which drafts in every round or never, in a separate process."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tlt_common.processes.children import end
from tlt_common.processes.parent_death import killed_with_parent
from tlt_worker.config import TrainerSettings, WorkerConfig
from tlt_worker.engine.base import EngineInfo
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.engine_config import EngineConfig
from tlt_worker.main import live

ARM = "chain-7"
CONTEXT = 512
START_S = 900.0
STOP_S = 20.0
POLL_S = 0.2


class _DraftingEngine(SglangEngine):
    """Drafts in every round, so that each round's drafts are counted."""

    async def start(self) -> EngineInfo:
        info = await super().start()
        self.force_arms(ARM)
        return info


@asynccontextmanager
async def engine_worker(model: Path, drafter: Path | None, run_dir: Path, *, dtype: str = "") -> AsyncIterator[str]:
    """
    Run a worker in its own process until the end of the block; yield its address. Without a drafter it never drafts.

    Raises:
        RuntimeError: It does not start.
    """
    announced = run_dir / "address"
    program = [sys.executable, "-m", __name__, str(model), str(drafter or ""), str(run_dir), str(announced), dtype]
    # The result may go to stdout.
    process = await asyncio.create_subprocess_exec(*killed_with_parent(program), stdout=sys.stderr)
    try:
        async with asyncio.timeout(START_S):
            while not await asyncio.to_thread(announced.exists):
                if process.returncode is not None:
                    raise RuntimeError(f"the worker ended with status {process.returncode}")
                await asyncio.sleep(POLL_S)
        yield await asyncio.to_thread(announced.read_text)
    finally:
        await end(process, STOP_S)


def main(model: str, drafter: str, run_dir: str, announced: str, dtype: str) -> None:
    """Run the process."""

    def announce(address: str) -> None:
        partial = Path(announced + ".partial")
        partial.write_text(address)
        partial.rename(announced)

    drafts = {"drafter": drafter, "arms": ("off", ARM)} if drafter else {"arms": ("off",)}
    engine = drafts | ({"dtype": dtype} if dtype else {})
    config = WorkerConfig(
        model=Path(model),
        engine=EngineConfig.model_validate({"context_length": CONTEXT, **engine}),
        listen="127.0.0.1:0",
        run_dir=Path(run_dir),
        trainer=TrainerSettings(enabled=False),
    )
    import uvloop

    # As `tlt serve worker`: under the policy that SGLang sets, only uvloop's loops start child processes.
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    kind = _DraftingEngine if drafter else SglangEngine
    asyncio.run(live(config, kind(config.model, config.engine), on_serving=announce))


if __name__ == "__main__":
    main(*sys.argv[1:6])
