"""The run that `tlt demo-real` demonstrates."""

import asyncio
import os
import sys
from functools import partial
from pathlib import Path

from countdown.fresh import FreshScores
from countdown.job import Job
from countdown.subject import Subject
from tlt_common.domain.fleet import Fleet
from tlt_common.errors import ConfigError, TltError
from tlt_local.models.published import SMOLLM2
from tlt_local.readiness import PUBLISHER
from word_problems.settings import POLICY, RESPONSES, RealSettings

SCORE_S = 600.0
"""Time limit, in seconds, for scoring both drafters; it takes half a minute."""


def demo_real(settings: RealSettings) -> Job:
    """
    Return the run of SmolLM2.

    Raises:
        ConfigError: Its checkpoint is not on this machine.
    """
    if not SMOLLM2.is_here:
        raise ConfigError(
            f"{SMOLLM2.name} is not on this machine; `tlt models get {SMOLLM2.name}` fetches it", field="model"
        )
    return Job(
        settings=settings,
        subject=Subject(
            command="tlt demo-real",
            make="make demo-real",
            bench=f"tlt bench rollout --model {SMOLLM2.name} --json -",
            policy="SmolLM2-135M-Instruct",
            task="word problems that the run generates",
            trained=f"its upper {settings.trained_layers} of 30 layers; the others, embedding and head are frozen",
            served="Engines serve the published checkpoint, all of its 30 layers.",
            ratio="Drafting costs one layer where a plain round costs 30.",
            reward=(
                "The reward is 1 for a correct answer, 0.1 for another answer of the asked form, and 0 without one or "
                "for a response that was cut."
            ),
        ),
        program="word_problems.trainer",
        prompt_tokens=256,
        checkpoint=_checkpoint,
        score=partial(score, settings),
        overtime_minutes=3.5,
    )


async def score(settings: RealSettings, directory: Path, fleet: Fleet) -> FreshScores | None:
    """
    Score the drafter that the run started with beside the newest one; None if one of the two does not exist.

    Raises:
        TltError: They cannot be scored; the message names the log.
    """
    is_trained = any(record.worker_id != PUBLISHER for record in fleet.drafters)
    if not settings.drafter or not is_trained or fleet.drafter is None:
        return None
    log_file = directory / "scoring.log"
    recorded = (str(directory / POLICY), str(directory / RESPONSES), str(settings.temperature))
    with log_file.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "word_problems.scoring",
            *recorded,
            settings.drafter,
            fleet.drafter.uri,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            env={**os.environ, "OMP_NUM_THREADS": str(len(os.sched_getaffinity(0)))},  # the suite has stopped
        )
        try:
            async with asyncio.timeout(SCORE_S):
                output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    if process.returncode:
        lines = log_file.read_text(errors="replace").strip().splitlines()
        raise TltError(f"scoring failed: {lines[-1] if lines else 'no error output'}; see {log_file}")
    return FreshScores.model_validate_json(output)


async def _checkpoint(directory: Path) -> Path:
    del directory  # nothing is written: engines serve the checkpoint as it is
    return SMOLLM2.directory
