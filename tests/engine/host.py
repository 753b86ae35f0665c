"""
Runs one scene with one engine, in a process of its own: `host.py SCENE RESULT_FILE WORK_DIRECTORY`.

SGLang keeps its configuration in globals, so that engines of different tests must not share a process.
"""

import asyncio
import pickle
import sys
from pathlib import Path

import scenes  # type: ignore[import-not-found] # beside this script

if __name__ == "__main__":
    scene, result_file, work = sys.argv[1:4]
    result = asyncio.run(getattr(scenes, scene)(Path(work)))
    Path(result_file).write_bytes(pickle.dumps(result))
