"""A process that answers each line of JSON on standard input with a line on standard output."""

import asyncio
import json
from typing import Any

from tlt_common.errors import UnavailableError
from tlt_common.processes.children import end
from tlt_common.processes.parent_death import killed_with_parent

END_S = 2.0


class LineProcess:
    """Runs one call at a time. The process ends with this one."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, program: list[str]) -> "LineProcess":
        """Start a program."""
        return cls(
            await asyncio.create_subprocess_exec(
                *killed_with_parent(program), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
            )
        )

    async def answer(self, order: object = None, *, within_s: float) -> dict[str, Any]:
        """
        Send a request, if any, and return the next answer. A call that fails or is cancelled ends the process.

        Raises:
            UnavailableError: The process exited or did not answer in time.
        """
        assert self._process.stdin is not None  # noqa: S101 - a pipe
        assert self._process.stdout is not None  # noqa: S101 - a pipe
        is_good = False
        try:
            if order is not None:
                self._process.stdin.write(json.dumps(order).encode() + b"\n")
            async with asyncio.timeout(within_s):
                line = await self._process.stdout.readline()
            if not line:
                raise UnavailableError("its process ended")
            answer: dict[str, Any] = json.loads(line)
            is_good = True
        except TimeoutError:
            raise UnavailableError(f"no answer within {within_s:g} s") from None
        finally:
            if not is_good:
                await asyncio.shield(self.end())
        return answer

    async def end(self) -> None:
        """End the process."""
        await end(self._process, END_S)
        assert self._process.stdin is not None  # noqa: S101 - a pipe
        assert self._process.stdout is not None  # noqa: S101 - a pipe
        self._process.stdin.close()
        await self._process.stdout.read()
