"""A worker with a real engine, which drafts in every round or never, in a separate process."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tlt_common.client import Client
from tlt_common.processes.children import end
from tlt_common.processes.parent_death import killed_with_parent
from tlt_gateway.config import GatewayConfig
from tlt_gateway.main import live as gateway_live
from tlt_worker.capacity.cpu_plan import cpu_rows
from tlt_worker.capacity.shape import ModelShape
from tlt_worker.checkpoints.drafter_format import drafter_format
from tlt_worker.checkpoints.model_config import read_config
from tlt_worker.config import TrainerSettings, WorkerConfig
from tlt_worker.engine.base import EngineInfo
from tlt_worker.engine.device import detect
from tlt_worker.engine.planning import plan_of
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.engine_config import EngineConfig
from tlt_worker.main import live

ARM = "chain-7"
CONTEXT = 512
START_S = 900.0
READY_S = 600.0
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


@asynccontextmanager
async def engine_client(
    model: Path, run_dir: Path, *, drafter: Path | None = None, dtype: str = ""
) -> AsyncIterator[Client]:
    """Run a worker, and a gateway in this process; yield a client. See `engine_worker`."""
    await asyncio.to_thread(run_dir.mkdir)
    async with AsyncExitStack() as parts:
        worker = await parts.enter_async_context(engine_worker(model, drafter, run_dir, dtype=dtype))
        config = GatewayConfig(listen="127.0.0.1:0", workers=(worker,), spool_dir=run_dir / "spool")
        address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        tasks = await parts.enter_async_context(asyncio.TaskGroup())
        serving = tasks.create_task(gateway_live(config, on_serving=address.set_result))
        client = await parts.enter_async_context(Client(await address))
        await client.wait_ready(READY_S)
        yield client
        serving.cancel()


def releasable_bytes(model: Path, drafter: Path) -> int:
    """Return the bytes that a release of everything frees on a CPU, according to the plan."""
    engine, described = _engine(drafter), read_config(model)
    form = drafter_format(engine, described)
    plan = plan_of(engine, detect(), described, drafter=form)
    shape = ModelShape.from_config(described, dtype=plan.profile.dtype, drafter=form)
    rows = cpu_rows(engine, shape, plan, context_length=CONTEXT)
    return sum(row.bytes for row in rows if row.name != "rounds")  # none runs


def _engine(drafter: Path) -> EngineConfig:
    return EngineConfig(drafter=drafter, arms=("off", ARM), context_length=CONTEXT, releasable=True)


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
        engine=EngineConfig.model_validate({"context_length": CONTEXT, "releasable": True, **engine}),
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
