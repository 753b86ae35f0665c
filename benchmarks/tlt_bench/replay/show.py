"""Formats a verdict as text and as JSON."""

import json
import sys
from pathlib import Path

from tlt_bench.replay.verdict import Hindsight, Verdict
from tlt_common.errors import ConfigError


def as_text(known: Hindsight, verdict: Verdict) -> str:
    """Format the verdict for a terminal."""
    world = known.worlds[0]
    lines = [
        f"{len(world.rounds)} rounds, arms {', '.join(arm.name for arm in world.arms)}",
        "",
        f"{'seconds':>9}  for the same tokens, with a fixed arm",
    ]
    times = sorted(known.fixed_seconds.items(), key=lambda item: item[1])
    lines += [f"{seconds:9.2f}  {arm.name}" for arm, seconds in times]
    lines += [
        f"{known.best_per_batch_seconds:9.2f}  the best arm per batch size",
        f"{verdict.seconds:9.2f}  the bandit",
        "",
        "batch      best arm in each half of the rounds",
    ]
    for group, arms in _best(known).items():
        lines.append(f"{f'{group}-{2 * group - 1}':<9}  {', '.join(arms)}")
    shares = ", ".join(f"{name} {share:.1%}" for name, share in verdict.share_of_rounds.items())
    lines += [
        "",
        f"regret against the best per batch size  {verdict.regret:.2%}",
        f"regret against the best fixed arm       {verdict.regret_best_fixed:.2%}",
        f"switches per 100 rounds                 {100 * verdict.switches_per_round:.1f}",
        f"rounds                                  {shares}",
    ]
    return "\n".join(lines)


def as_json(known: Hindsight, verdict: Verdict) -> str:
    """Format the verdict as one line of JSON."""
    return json.dumps(
        {
            "rounds": len(known.worlds[0].rounds),
            "regret": verdict.regret,
            "regret_best_fixed": verdict.regret_best_fixed,
            "adaptive_vs_best_fixed": known.fixed_seconds[known.best_fixed] / verdict.seconds,
            "best_fixed": known.best_fixed.name,
            "seconds": verdict.seconds,
            "seconds_by_replay": list(verdict.seconds_by_replay),
            "best_per_batch_seconds": known.best_per_batch_seconds,
            "fixed_seconds": {arm.name: seconds for arm, seconds in known.fixed_seconds.items()},
            "best_per_batch": _best(known),
            "share_of_rounds": dict(verdict.share_of_rounds),
            "switches_per_round": verdict.switches_per_round,
        }
    )


def _best(known: Hindsight) -> dict[int, list[str]]:
    """Return the names of the best arms by bucket; one name if both halves agree."""
    groups = sorted({group for best in known.best_per_batch for group in best})
    return {group: sorted({best[group].name for best in known.best_per_batch if group in best}) for group in groups}


def put(target: str, text: str) -> None:
    """
    Write a line to a file, or to stdout if `target` is "-".

    Raises:
        ConfigError: The file cannot be written.
    """
    if target == "-":
        sys.stdout.write(text + "\n")
        return
    try:
        Path(target).write_text(text + "\n")
    except OSError as error:
        raise ConfigError(
            f"--json: {target} cannot be written ({error.strerror}); accepted: -, or a file in an existing directory",
            field="json",
        ) from error
