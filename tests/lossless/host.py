"""
Runs one scene with one engine in its own process: `python -m tests.lossless.host SCENE SIZE RESULT WORK`.

SGLang keeps its configuration in globals, so engines of different scenes must not share a process.
"""

import asyncio
import pickle
import sys
from pathlib import Path

from tests.lossless import scenes
from tests.lossless.cases import SIZES

if __name__ == "__main__":
    scene, size, result_file, work = sys.argv[1:5]
    result = asyncio.run(getattr(scenes, scene)(Path(work), SIZES[size]))
    Path(result_file).write_bytes(pickle.dumps(result))
