"""
Runs one scene with one engine, in a process of its own: `host.py [MODULE.]SCENE RESULT_FILE WORK_DIRECTORY`.

SGLang keeps its configuration in globals, so that engines of different tests must not share a process.
"""

import asyncio
import pickle
import sys
from importlib import import_module
from pathlib import Path

if __name__ == "__main__":
    scene, result_file, work = sys.argv[1:4]
    module, _, name = scene.rpartition(".")
    result = asyncio.run(getattr(import_module(module or "scenes"), name)(Path(work)))
    Path(result_file).write_bytes(pickle.dumps(result))
