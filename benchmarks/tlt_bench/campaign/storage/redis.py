"""Controls the embedded Redis of a suite, which can be made full, slow or empty by its own commands."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

ANSWER_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisControl:
    """
    Sends commands to a Redis.

    Args:
        socket: Unix socket it listens on.
    """

    socket: Path

    async def command(self, *words: str) -> str:
        """
        Send a command; return the first line of the answer, or an empty string if Redis closed the connection.

        Raises:
            OSError: Redis is not running or refused the command.
        """
        async with asyncio.timeout(ANSWER_S):
            reader, writer = await asyncio.open_unix_connection(self.socket)
            try:
                parts = [f"${len(word.encode())}\r\n{word}\r\n" for word in words]
                writer.write(f"*{len(words)}\r\n{''.join(parts)}".encode())
                await writer.drain()
                answer = (await reader.readline()).decode().rstrip()
                if answer.startswith("$"):
                    answer = (await reader.readline()).decode().rstrip()
                elif answer.startswith("*"):
                    length = int(answer[1:])
                    lines = [(await reader.readline()).decode().rstrip() for _ in range(2 * length)]
                    answer = lines[-1] if lines else ""
            finally:
                writer.close()
        if answer.startswith("-"):
            raise OSError(f"Redis refused {words[0]}: {answer[1:]}")
        return answer

    async def limit(self) -> str:
        """Return the memory limit, in bytes."""
        return await self.command("CONFIG", "GET", "maxmemory")

    async def set_limit(self, limit: str) -> None:
        """Set the memory limit, in bytes. Below the current usage, Redis refuses all writes."""
        await self.command("CONFIG", "SET", "maxmemory", limit)

    async def pause(self, seconds: float) -> None:
        """Make Redis unresponsive for a while."""
        await self.command("CLIENT", "PAUSE", str(round(1000 * seconds)))

    async def flush(self) -> None:
        """Delete everything, as another user of a shared Redis might."""
        await self.command("FLUSHALL")

    async def shut_down(self) -> None:
        """End the process. Its service starts another one."""
        await self.command("SHUTDOWN", "NOSAVE")
