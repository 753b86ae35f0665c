"""Table of the suite's comparisons and how well they fit."""

from collections import defaultdict

from tests.lossless.exact import WINDOWS
from tests.lossless.judge import ALL, LEVEL, LONG, OFF_WINDOW, Verdict

_EXACT = tuple(f"{window} exact" for window in WINDOWS)


def table(verdicts: list[Verdict], loop: str, *, whole: bool) -> list[str]:
    """Return one line per phase and setting, or per phase only."""
    cases: dict[tuple[str, str], dict[str, Verdict]] = defaultdict(dict)
    for each in verdicts:
        if whole or each.setting == ALL:
            cases[each.phase, each.setting][each.comparison] = each
    head = " ".join(f"{name:>9}" for name in (*_EXACT, OFF_WINDOW, LONG))
    answers = sum(each.fit.samples for each in verdicts if each.setting == ALL and each.comparison == _EXACT[0])
    lines = [
        "",
        (
            f"lossless, {loop} loop: {answers:,} short answers; p values of {len(verdicts)} comparisons, accepted "
            f"above {LEVEL / len(verdicts):.1e}; total variation of tokens 1 to 4 (and its mean if they are equal)"
        ),
        f"{'arms':24} {'setting':22} {'n':>6} {'accept':>6} {head} {'TV exact':>15} {'TV off':>15}",
    ]
    for (phase, setting), by_name in cases.items():
        first = by_name[_EXACT[0]]
        values = " ".join(
            f"{by_name[name].fit.p_value:9.2g}" if name in by_name else f"{'-':>9}"
            for name in (*_EXACT, OFF_WINDOW, LONG)
        )
        lines.append(
            f"{phase:24} {setting:22} {first.fit.samples:6} {first.accept_length:6.2f} {values} "
            f"{_distance(by_name, '1-4 exact'):>15} {_distance(by_name, OFF_WINDOW):>15}"
        )
    worst = min(verdicts, key=lambda each: each.fit.p_value)
    lines.append(f"smallest p: {worst.fit.p_value:.2g} ({worst.phase}, {worst.setting}, {worst.comparison})")
    return lines


def _distance(by_name: dict[str, Verdict], name: str) -> str:
    if name not in by_name:
        return "-"
    return f"{by_name[name].fit.distance:.4f} ({by_name[name].fit.expected_distance:.4f})"
