"""What keeps the house in order: sizes, names, virtual time."""

import ast
import re
from pathlib import Path

import pytest

from tests.house import (
    ROOT,
    SHIPPED,
    circles,
    classes,
    figures,
    files,
    keys,
    modules_per_folder,
    named,
)
from tests.zeros import zeros_lost

MAX_LINES = 400
MAX_MODULES = 16
"""In a folder of the shipped code. Tests have none of their own: those of units mirror that tree, others are scenes."""
FORBIDDEN_NAMES = {"utils.py", "helpers.py", "manager.py", "misc.py"}
TWO_MEANINGS: dict[str, str] = {}
"""Public class names that are defined twice, with the reason."""
BROAD_EXCEPTS = {
    # A call, or a task that must not end, becomes a status.
    "services/tlt_gateway/http/events.py",
    "services/tlt_worker/requests/request_stream.py",
    "tlt_common/changes.py",
    "tlt_common/rpc/http/calls.py",
    "tlt_common/rpc/interceptor.py",
    # What a service can do without ends alone.
    "tlt_common/telemetry/optional.py",
    # Libraries that raise anything: stores, tokenizers, Ray.
    "services/tlt_gateway/http/text/tokenizer.py",
    "services/tlt_simulator/traces/counting.py",
    "services/tlt_trainer/store/storage.py",
    "services/tlt_worker/placement/local_ray.py",
    "services/tlt_worker/placement/serve.py",
    "services/tlt_worker/scheduler/stopping.py",
    "services/tlt_worker/weights/source.py",
    "tlt_common/text/detokenizer.py",
    # What callers, models and trainers wrote is run.
    "services/tlt_gateway/http/resident/child.py",
    "services/tlt_gateway/http/text/parsing.py",
    "services/tlt_gateway/http/text/rendering.py",
    "tlt_common/integrations/trl/conversation.py",
    # SGLang and its scheduler.
    "services/tlt_worker/engine/control.py",
    "services/tlt_worker/scheduler/failures/between_rounds.py",
    "services/tlt_worker/scheduler/failures/containment.py",
    "services/tlt_worker/scheduler/failures/control_requests.py",
    "services/tlt_worker/scheduler/failures/intake.py",
    "services/tlt_worker/scheduler/failures/recovery.py",
    "services/tlt_worker/scheduler/plugin.py",
    "services/tlt_worker/scheduler/policy_load.py",
    "services/tlt_worker/scheduler/ranks.py",
    "services/tlt_worker/speculation/served_drafter.py",
}
"""Where errors of any type are converted."""


@pytest.mark.parametrize("path", files(), ids=named)
def test_a_file_is_short_and_named_for_what_it_holds(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MAX_LINES
    assert path.name not in FORBIDDEN_NAMES


def test_figures_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print()
        print(figures())
    assert keys() > 0


def test_no_folder_of_the_shipped_code_has_too_many_modules() -> None:
    counts = modules_per_folder(list(files(*SHIPPED)))
    full = {folder: count for folder, count in counts.items() if count > MAX_MODULES}
    assert not full


def test_no_packages_import_each_other_in_a_circle() -> None:
    assert not circles()


def test_a_public_class_name_means_one_thing() -> None:
    found = {name: places for name, places in classes().items() if len(places) > 1 and name not in TWO_MEANINGS}
    assert not found


def test_what_a_package_says_that_others_may_use_exists() -> None:
    modules = list(files(*SHIPPED))
    defined = set(
        re.findall(r"^ *(?:class|def|async def) (\w+)", "\n".join(p.read_text() for p in modules), re.MULTILINE)
    )
    for path in modules:
        if path.name == "__init__.py":
            said = ast.get_docstring(ast.parse(path.read_text())) or ""
            inside = {near.stem for room in (path.parent, path.parent.parent) for near in room.iterdir()}
            for name in re.findall(r"`([A-Za-z_]+)`", said.partition("thers ")[2]):
                assert name in inside | defined, f"{path}: {name}"


def test_every_metric_is_declared_once_and_all_names_carry_the_prefix() -> None:
    text = (ROOT / "tlt_common/telemetry/metrics.py").read_text()
    names = re.findall(r'(?:Counter|Gauge|Histogram)\("([^"]+)"', text)
    assert names
    assert all(name.startswith("tlt_") for name in names)
    assert len(names) == len(set(names))


def test_metrics_are_declared_nowhere_else() -> None:
    for path in files():
        if path.name != "metrics.py" and "tests" not in path.parts:
            assert "from prometheus_client import Counter" not in path.read_text(), path


def test_services_use_only_metrics_that_exist() -> None:
    from tlt_common.telemetry import metrics

    for path in files():
        if "services" in path.parts:
            for name in re.findall(r"\bmetrics\.([A-Z][A-Z_]+)\b", path.read_text()):
                assert hasattr(metrics, name), f"{path}: {name}"


def test_delays_between_attempts_come_from_the_one_backoff() -> None:
    """A power of the number of failures overflows after a thousand of them, in a task that must never end."""
    for path in files():
        if (
            path.parts[len(ROOT.parts)] not in {"tlt_common", "services", "benchmarks", "examples", "demos"}
            or path.name == "aio.py"
        ):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            text = ast.unparse(node) if isinstance(node, ast.BinOp | ast.AugAssign) else ""
            assert not re.search(r"(\*\*|<<) .*\b(failures|attempts?|retries|tries)\b|delay(_s)? (\* 2|\*= )", text), (
                f"{path}: {text}; use tlt_common.aio.backoff"
            )


def test_no_broad_except_outside_the_places_where_errors_are_converted() -> None:
    found: set[str] = set()
    for path in files():
        for node in ast.walk(ast.parse(path.read_text())) if "tests" not in path.parts else ():
            if isinstance(node, ast.ExceptHandler):
                names = {name.id for name in ast.walk(node.type) if isinstance(name, ast.Name)} if node.type else {""}
                if names & {"", "Exception"}:
                    found.add(named(path))
    assert found == BROAD_EXCEPTS


def test_a_number_of_which_0_is_a_value_is_not_tested_by_truth() -> None:
    assert not zeros_lost({path.relative_to(ROOT): path.read_text() for path in files(*SHIPPED)})


def test_that_check_finds_what_it_is_for() -> None:
    source = (
        "def f(version: PolicyVersion | None, n: int | None):\n    return (version and n) or not version or bool(n)\n"
    )
    found = zeros_lost({Path("services/a.py"): source, Path("tlt_common/domain/b.py"): source})
    assert found == [
        *("services/a.py:2: " + name for name in ("version", "n", "version", "n")),
        *("tlt_common/domain/b.py:2: " + name for name in ("version", "n", "version", "n")),
    ]
