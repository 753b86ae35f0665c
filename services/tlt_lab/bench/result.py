"""The one form in which a bench answers."""

import json
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tlt_common.errors import ConfigError

PACKAGES = ("tlt", "sglang", "torch", "ray", "trl", "grpcio", "redis")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Figures of one bench. A figure is the median over repeats; spread is from the least to the most."""

    name: str
    figures: Mapping[str, float]
    spread: Mapping[str, tuple[float, float]]
    repeats: int
    notes: Mapping[str, str]

    def as_json(self) -> str:
        """One line."""
        rounded = {key: round(value, 4) for key, value in self.figures.items()}
        spread = {key: [round(low, 4), round(high, 4)] for key, (low, high) in self.spread.items()}
        return json.dumps(
            {
                "name": self.name,
                "figures": rounded,
                "spread": spread,
                "repeats": self.repeats,
                "machine": machine(),
                "versions": versions(),
                "notes": dict(self.notes),
            }
        )

    def write(self, target: str) -> None:
        """Write to a path, or to stdout if it is "-"."""
        if target == "-":
            sys.stdout.write(self.as_json() + "\n")
        else:
            Path(target).write_text(self.as_json() + "\n")


def check_target(target: str) -> None:
    """
    Find out before a bench runs whether its result can be written.

    Raises:
        ConfigError: It cannot.
    """
    folder = Path(target).parent
    if target != "-" and (Path(target).is_dir() or not os.access(folder, os.W_OK)):
        raise ConfigError(
            f"--json: {target} cannot be written; accepted: -, or a file in an existing folder", field="json"
        )


def machine() -> str:
    """Processor, cores and memory, in words."""
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model}, {len(os.sched_getaffinity(0))} cores, {memory_gib:.0f} GiB"


def versions() -> dict[str, str]:
    """Of Python and of the packages that matter for speed."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
