"""
The process that reads pickled tensors: `python -m tlt_worker.weights.receiving.reading`.

Each line names a file of pickled tensors and one to write them to; it is answered by an object that has `error` if that
failed. Every pickle is read by a fork of its own, of bounded memory, so that it may do what it likes to it.
"""

import json
import os
import resource
import sys
from pathlib import Path
from typing import TextIO

import torch

from tlt_common.errors import WeightsError
from tlt_worker.weights.receiving.pickled import write_tensors

ROOM_BYTES = 2**28
"""Memory for what is not content: modules that are imported late, and the pickle's own machinery."""
COPIES = 5
"""The file, the pickle's bytes, the tensors, tensors that are not contiguous once more, and what is written."""


def serve(answers: TextIO) -> None:
    """Read what is ordered until standard input ends."""
    for line in sys.stdin:
        order = json.loads(line)
        if (child := os.fork()) == 0:
            _read(Path(order["content"]), Path(order["file"]), answers)
        _, status = os.waitpid(child, 0)
        if status:
            how = os.waitstatus_to_exitcode(status)
            print(json.dumps({"error": f"the process that read it ended with status {how}"}), file=answers)


def _read(content: Path, file: Path, answers: TextIO) -> None:
    """Read in this fork, and end it."""
    status = 1
    try:
        size = content.stat().st_size
        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        limit = held + ROOM_BYTES + COPIES * size
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        answer = {}
        try:
            write_tensors(content.read_bytes(), file)
        except WeightsError as error:
            answer = {"error": error.message}
        except OSError as error:
            answer = {"unreadable": f"cannot store weights in {file.parent}: {error.strerror or error}"}
        print(json.dumps(answer), file=answers)
        status = 0
    finally:
        os._exit(status)  # nothing of the parent's is cleaned up here


if __name__ == "__main__":
    torch.set_num_threads(1)  # a fork has no other threads
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    serve(lines)
