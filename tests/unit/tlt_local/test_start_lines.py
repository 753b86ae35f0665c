"""Lines of a start: with seconds, and repeated rather than none."""

import re
import threading

from tlt_local.supervision.start_lines import StartLines


def test_a_line_has_the_seconds_since_the_beginning() -> None:
    printed: list[str] = []
    with StartLines(printed.append) as lines:
        lines.say("checking")
    assert re.fullmatch(r" +\d+ s  checking", printed[0])


def test_the_last_line_is_repeated_while_nothing_else_is_said() -> None:
    printed, third = list[str](), threading.Event()

    def note(line: str) -> None:
        printed.append(line.partition("s  ")[2])
        if len(printed) == 3:
            third.set()

    with StartLines(note, silent_s=0.01) as lines:
        lines.say("checking")
        assert third.wait(60)
    assert printed[:3] == ["checking", "still checking", "still checking"]


def test_nothing_is_repeated_before_a_line_or_after_the_end() -> None:
    printed = list[str]()
    with StartLines(printed.append, silent_s=0.001) as lines:
        lines.stop()
        lines.stop()
        lines.say("ready")
    assert len(printed) == 1
