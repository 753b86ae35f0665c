"""The trainer as a process: it does not outlive its worker, and saves a checkpoint on SIGTERM."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest
import torch

from tests.fakes.machine import lives
from tests.unit.tlt_trainer.tiny import TinyPolicy, encoded_frames_of, tiny_policy
from tlt_cache.config import CacheConfig
from tlt_cache.main import cache_service
from tlt_common.rpc.channel import connect
from tlt_common.wire import hidden
from tlt_common.wire import trainer as wire

WAIT_S = 60.0
LOOK_S = 0.05


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> TinyPolicy:
    torch.set_num_threads(1)
    return tiny_policy(tmp_path_factory.mktemp("policy"))


def command(policy: TinyPolicy, root: Path, cache: str = "") -> list[str]:
    settings = {
        "socket": root / "trainer.sock",
        "model": policy.directory,
        "drafter_dir": root / "drafters",
        "checkpoint_dir": root / "checkpoints",
        "cache": cache,
    }
    arguments = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    return [sys.executable, "-m", "tlt_common.cli", "serve", "trainer", *arguments]


async def there(path: Path) -> None:
    async with asyncio.timeout(WAIT_S):
        while not path.exists():  # noqa: ASYNC110, ASYNC240 - created by another process
            await asyncio.sleep(LOOK_S)


async def test_it_ends_when_the_process_that_started_it_dies(policy: TinyPolicy, tmp_path: Path) -> None:
    script = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:]).pid, flush=True); sys.stdin.read()"
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script, *command(policy, tmp_path)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert parent.stdout is not None
    trainer = int(await parent.stdout.readline())
    await there(tmp_path / "trainer.sock")
    parent.kill()
    await parent.wait()
    async with asyncio.timeout(WAIT_S):
        while lives(trainer):  # noqa: ASYNC110 - the process is no longer a child of anyone here
            await asyncio.sleep(LOOK_S)


async def test_what_was_learned_is_saved_when_it_is_told_to_end(policy: TinyPolicy, tmp_path: Path) -> None:
    async with cache_service(CacheConfig(redis="memory")) as port, asyncio.timeout(WAIT_S):
        async with connect(f"127.0.0.1:{port}") as channel:
            requests = [hidden.put_request(frame) for frame in encoded_frames_of(policy, 60)]
            await hidden.Stub(channel).Put(iter(requests))
        trainer = await asyncio.create_subprocess_exec(
            *command(policy, tmp_path, f"127.0.0.1:{port}"), stderr=asyncio.subprocess.DEVNULL
        )
        await there(tmp_path / "trainer.sock")
        async with connect(f"unix:{tmp_path / 'trainer.sock'}") as channel:
            stub = wire.Stub(channel)
            await stub.Start(wire.pb.StartRequest(epoch=1, ttl_s=100.0, policy_uri=str(policy.directory)))
            while not (await stub.GetProgress(wire.pb.GetProgressRequest())).progress.step_count:  # noqa: ASYNC110
                await asyncio.sleep(LOOK_S)
        trainer.send_signal(signal.SIGTERM)
        assert await trainer.wait() == 0
    assert len(list((tmp_path / "checkpoints").iterdir())) == 1
