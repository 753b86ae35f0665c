"""Flow control per caller: more requests start only while the caller reads what it receives."""

import asyncio


class Gate:
    """Gate that is initially open."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()

    @property
    def is_open(self) -> bool:
        """Whether requests may start."""
        return self._open.is_set()

    def set(self, *, is_open: bool) -> None:
        """Open or close the gate."""
        if is_open:
            self._open.set()
        else:
            self._open.clear()

    async def until_open(self) -> None:
        """Wait until requests may start."""
        await self._open.wait()
