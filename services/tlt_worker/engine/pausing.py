"""Pauses generation in SGLang while weights are replaced."""

from typing import Any


class Paused:
    """Pauses generation within a block and records it in `pauses`."""

    def __init__(self, manager: Any, mode: str, pauses: set[str]) -> None:
        self._manager = manager
        self._mode = mode
        self._pauses = pauses

    async def __aenter__(self) -> None:
        from sglang.srt.managers.io_struct import PauseGenerationReqInput

        await self._manager.pause_generation(PauseGenerationReqInput(mode=self._mode))
        self._pauses.add(self._mode)

    async def __aexit__(self, *_: object) -> None:
        from sglang.srt.managers.io_struct import ContinueGenerationReqInput

        await self._manager.continue_generation(ContinueGenerationReqInput())
        self._pauses.discard(self._mode)
