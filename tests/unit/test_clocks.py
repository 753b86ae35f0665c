"""
Clocks may be set while a service runs. Intervals and time limits are measured on a clock that nobody sets.

Only what shows or checks a date reads the calendar's clock; this is the whole list.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
DATES = {
    "services/tlt_cache/memory_frame_store.py": "sequence numbers above those before a restart; they never fall",
    "services/tlt_coordinator/clock.py": "the offset of Unix time, read once",
    "services/tlt_coordinator/kube/events.py": "times and names of Events",
    "services/tlt_gateway/http/openai/answers.py": "the date of an answer, which OpenAI's protocol has",
    "services/tlt_gateway/http/openai/chat.py": "the date of an answer, which OpenAI's protocol has",
    "services/tlt_gateway/http/openai/routes.py": "the date of a model, which OpenAI's protocol has",
    "services/tlt_gateway/journal/journal.py": "the offset of Unix time, read once",
    "services/tlt_gateway/http/text/rendering.py": "the date, which chat templates may show",
    "services/tlt_worker/placement/leave.py": "a date that Ray takes",
    "tlt_common/integrations/trl/asynchronous.py": "a date that TRL subtracts from its own",
    "tlt_common/rpc/security/bearer.py": "the expiry of tokens",
    "tlt_common/rpc/security/certificates.py": "the expiry of certificates",
    "tlt_common/weights/update_key.py": "the order of two updates of one version",
}
CALENDAR = {"time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "datetime.today", "date.today"}


def calls(path: Path) -> Iterator[str]:
    """Yield the calls and references to the calendar's clock in a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and ".".join(ast.unparse(node).split(".")[-2:]) in CALENDAR:
            yield ast.unparse(node)
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            yield from (f"from time import {name.name}" for name in node.names if name.name.startswith("time"))


def test_only_dates_are_read_from_the_calendars_clock() -> None:
    sources = [path for folder in ("services", "tlt_common") for path in (ROOT / folder).rglob("*.py")]
    found = {str(path.relative_to(ROOT)): list(calls(path)) for path in sources if "_generated" not in path.parts}
    unexpected = {path: names for path, names in found.items() if names and path not in DATES}
    assert len(sources) > 200
    assert unexpected == {}
    assert found["services/tlt_coordinator/clock.py"]  # the search finds what it looks for
