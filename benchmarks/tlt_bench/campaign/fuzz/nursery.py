"""
Forks a process per target, with everything imported: `python -m tlt_bench.campaign.fuzz.nursery`.

Importing all that targets read with takes seconds, in which a target tries hundreds of inputs. Each line of stdin is a
target's `Errand` as JSON; the answers are the child's process id and, when it has ended, its exit code. Nothing may
start a thread before the fork.
"""

import os
import sys
import threading
import traceback
from importlib import import_module
from typing import Never

from pydantic import BaseModel

from tlt_bench.campaign.fuzz.all_targets import discovered
from tlt_bench.campaign.fuzz.child import main
from tlt_common.processes.parent_death import die_with


class Errand(BaseModel):
    """One target to search, and the files for what the child writes."""

    arguments: tuple[str, ...]
    """Those of `child`."""
    output: str
    errors: str


PRELOADED = ("torch", "torch._dynamo", "tlt_trainer.main")
"""What targets import when they are opened."""


def serve() -> None:
    """Fork one child after the other until stdin ends."""
    discovered()
    for module in PRELOADED:
        import_module(module)
    if threading.active_count() > 1:
        raise RuntimeError("an import started a thread, which a forked process would lack")
    for line in sys.stdin:
        errand = Errand.model_validate_json(line)
        parent, pid = os.getpid(), os.fork()
        if pid == 0:
            _live(errand, parent)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _live(errand: Errand, parent: int) -> Never:
    """Search in this process, and end it without the parent's cleanup."""
    code = 1
    try:
        die_with(parent)
        for number, path in ((1, errand.output), (2, errand.errors)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        main(*errand.arguments)
        code = 0
    except BaseException:
        traceback.print_exc()
        raise  # the exit below comes first
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
