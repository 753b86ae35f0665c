"""A verdict in words and as JSON."""

import json
import sys
from pathlib import Path

from tlt_common.errors import ConfigError
from tlt_tuner.replay.verdict import Hindsight, Verdict
from tlt_tuner.replay.world import World


def as_text(world: World, known: Hindsight, verdict: Verdict) -> str:
    """Tell it to a person."""
    lines = [
        f"{len(world.rounds)} rounds, arms {', '.join(arm.name for arm in world.arms)}",
        "",
        f"{'seconds':>9}  for the same tokens, run all through",
    ]
    times = sorted(known.fixed_seconds.items(), key=lambda item: item[1])
    lines += [f"{seconds:9.2f}  {arm.name}" for arm, seconds in times]
    lines += [
        f"{known.best_by_place_seconds:9.2f}  the best arm of each batch size",
        f"{verdict.seconds:9.2f}  the bandit",
        "",
        "batch      best",
    ]
    for place, arm in sorted(known.best_by_place.items(), key=lambda item: (item[0].drafter, item[0].group)):
        lines.append(f"{f'{place.group}-{2 * place.group - 1}':<9}  {arm.name}, drafter {place.drafter}")
    shares = ", ".join(f"{name} {share:.1%}" for name, share in verdict.share_of_rounds.items())
    lines += [
        "",
        f"regret against the best per batch size  {verdict.regret:.2%}",
        f"regret against the best fixed arm       {verdict.regret_best_fixed:.2%}",
        f"switches per 100 rounds                 {100 * verdict.switches_per_round:.1f}",
        f"rounds                                  {shares}",
    ]
    return "\n".join(lines)


def as_json(world: World, known: Hindsight, verdict: Verdict) -> str:
    """Tell it to a program, in one line."""
    return json.dumps(
        {
            "rounds": len(world.rounds),
            "regret": verdict.regret,
            "regret_best_fixed": verdict.regret_best_fixed,
            "adaptive_vs_best_fixed": known.fixed_seconds[known.best_fixed] / verdict.seconds,
            "best_fixed": known.best_fixed.name,
            "seconds": verdict.seconds,
            "seconds_by_replay": list(verdict.seconds_by_replay),
            "best_per_batch_seconds": known.best_by_place_seconds,
            "fixed_seconds": {arm.name: seconds for arm, seconds in known.fixed_seconds.items()},
            "best_per_batch": [
                {"batch": place.group, "drafter": place.drafter, "arm": arm.name}
                for place, arm in sorted(known.best_by_place.items())
            ],
            "share_of_rounds": dict(verdict.share_of_rounds),
            "switches_per_round": verdict.switches_per_round,
        }
    )


def put(target: str, text: str) -> None:
    """
    Write a line to a path, or to stdout if it is "-".

    Raises:
        ConfigError: The path cannot be written.
    """
    if target == "-":
        sys.stdout.write(text + "\n")
        return
    try:
        Path(target).write_text(text + "\n")
    except OSError as error:
        raise ConfigError(
            f"--json: {target} cannot be written ({error.strerror}); accepted: -, or a file in an existing folder",
            field="json",
        ) from error
