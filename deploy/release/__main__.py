"""`python -m release OUT [IMAGE...]`: build a release into a new directory, and check it."""

import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from release import build
from release.check import problems


def main(out: Path, images: list[str]) -> int:
    """Build and check; return 1 if something is wrong."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    steps: list[Callable[[], None]] = [
        partial(build.distributions, out),
        partial(build.chart, out),
        *(partial(build.image, out, target) for target in images),
        partial(build.sbom, out),
        partial(build.checksums, out),
    ]
    if not images:
        print("skipped: images: IMAGES names none")
    for step in steps:
        try:
            step()
        except build.Skipped as skipped:
            print(f"skipped: {skipped}")
    for path in sorted(out.iterdir()):
        print(f"{path}  {path.stat().st_size / 1024:,.0f} KiB")
    found = problems(out)
    for problem in found:
        print(f"wrong: {problem}", file=sys.stderr)
    print(f"tlt-suite {build.version()}: {'not to be released' if found else 'checked'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
