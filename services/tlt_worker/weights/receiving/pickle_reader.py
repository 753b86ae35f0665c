"""Reads pickled tensors in a separate process."""

import sys
from pathlib import Path

from tlt_common.errors import UnavailableError, WeightsError, WeightsUnreadableError
from tlt_common.processes.line_process import LineProcess

READ_S = 120.0
"""Maximum seconds for one call's tensors, and for the import of torch before the first."""


class PickleReader:
    """Serves one caller at a time. The process starts with the first pickle and keeps running."""

    def __init__(self) -> None:
        self._process: LineProcess | None = None

    async def write_tensors(self, content: Path, file: Path) -> None:
        """
        Write the tensors pickled in `content` to a safetensors file.

        Raises:
            WeightsError: They cannot be read, or the pickle contains other objects.
            WeightsUnreadableError: The file cannot be written.
        """
        if self._process is None:
            self._process = await LineProcess.start([sys.executable, "-m", "tlt_worker.weights.receiving.pickled"])
        process, self._process = self._process, None  # a call that is cancelled ends it
        try:
            answer = await process.answer({"content": str(content), "file": str(file)}, within_s=READ_S)
        except UnavailableError as error:
            raise WeightsError(f"serialized_named_tensors: {error.message}", field="serialized_named_tensors") from None
        self._process = process
        if "unreadable" in answer:
            raise WeightsUnreadableError(answer["unreadable"])
        if "error" in answer:
            why = str(answer["error"]).removeprefix("serialized_named_tensors: ")
            raise WeightsError(f"serialized_named_tensors: {why}", field="serialized_named_tensors")

    async def close(self) -> None:
        """End the process."""
        if self._process is not None:
            await self._process.end()
            self._process = None
