"""A broadcasting trainer: a process with rank 0 of a group, which it creates with the function that trainers use."""

import ast
import asyncio
import importlib.util
import json
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tlt_common.processes.parent_death import killed_with_parent


@dataclass
class Broadcaster:
    """Handle of the process."""

    process: asyncio.subprocess.Process
    group: dict[str, Any]

    async def joined(self) -> None:
        """Wait until the group is complete."""
        await self._until("joined")

    async def send(self, names: Iterable[str], *, flat: bool = False) -> None:
        """Start to broadcast tensors of the file; returns immediately."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"names": list(names), "flat": flat}).encode() + b"\n")

    async def sent(self) -> None:
        """Wait until a broadcast has ended."""
        await self._until("sent")

    async def _until(self, said: str) -> None:
        assert self.process.stdout is not None
        while line := (await self.process.stdout.readline()).decode().strip():
            if line == said:  # gloo writes lines of its own
                return
        raise RuntimeError(f"the broadcaster ended before it had {said}")


@asynccontextmanager
async def broadcaster(
    file: Path, *, port: int, name: str = "weights", world_size: int = 2
) -> AsyncIterator[Broadcaster]:
    """Start a trainer with the tensors of a safetensors file. It waits for the other ranks."""
    program = [sys.executable, __file__, str(file), str(port), name, str(world_size)]
    process = await asyncio.create_subprocess_exec(
        *killed_with_parent(program), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    group = {
        "master_address": "127.0.0.1", "master_port": port, "rank_offset": 1, "world_size": world_size,
        "group_name": name, "backend": "gloo",
    }  # fmt: skip
    try:
        yield Broadcaster(process, group)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def trainers_function(name: str) -> Any:
    """Return a function of SGLang's utilities, whose import as a whole takes fifteen seconds."""
    spec = importlib.util.find_spec("sglang")
    if spec is None or spec.origin is None:
        raise RuntimeError("SGLang is not installed")
    module = ast.parse((Path(spec.origin).parent / "srt/utils/common.py").read_text())
    (found,) = [part for part in module.body if isinstance(part, ast.FunctionDef) and part.name == name]
    scope: dict[str, Any] = {"torch_release": (2, 6)}
    exec(compile(ast.Module(body=[found], type_ignores=[]), name, "exec"), scope)  # noqa: S102 - an installed package
    return scope[name]


def main(file: str, port: int, name: str, world_size: int) -> None:
    """Run the process."""
    import torch
    from safetensors.torch import load_file
    from torch import distributed

    state = load_file(file)
    group = trainers_function("init_custom_process_group")(
        backend="gloo", init_method=f"tcp://127.0.0.1:{port}", world_size=world_size, rank=0, group_name=name
    )
    print("joined", flush=True)  # noqa: T201 - read by `Broadcaster`
    for line in sys.stdin:
        order = json.loads(line)
        tensors = [state[name] for name in order["names"]]
        if order["flat"]:
            tensors = [torch.cat([tensor.flatten().view(torch.uint8) for tensor in tensors])]
        for tensor in tensors:
            distributed.broadcast(tensor, 0, group=group)
        print("sent", flush=True)  # noqa: T201 - read by `Broadcaster`


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
