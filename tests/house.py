"""Measures the house: sizes, circles, class names."""

import ast
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

import grimp

ROOT = Path(__file__).parent.parent
SHIPPED = ("tlt_suite", "tlt_common", "services", "benchmarks")
SOURCES = (*SHIPPED, "examples", "demos", "deploy", "docs", "proto", "tests")
TOP_PACKAGES = (
    "tlt_suite",
    "tlt_common",
    *(f"tlt_{name}" for name in ("gateway", "worker", "cache", "trainer", "tuner", "coordinator", "local", "bench")),
)


def files(*sources: str) -> Iterator[Path]:
    """Yield the Python files below these folders, except generated ones."""
    for source in sources or SOURCES:
        for path in sorted((ROOT / source).rglob("*.py")):
            if "_generated" not in path.parts:
                yield path


def named(path: Path) -> str:
    """Return the path as seen from the root of the repository."""
    return path.relative_to(ROOT).as_posix()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Lines of each file and each function of a package, and its fullest folder."""

    files: Sequence[int]
    functions: Sequence[int]
    fullest: int


def sizes(paths: Collection[Path]) -> Sizes:
    """Count lines, functions and modules of these files."""
    lines: list[int] = []
    functions: list[int] = []
    for path in paths:
        text = path.read_text()
        lines.append(len(text.splitlines()))
        functions.extend(
            (node.end_lineno or node.lineno) - node.lineno + 1
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        )
    return Sizes(files=lines, functions=functions, fullest=max(modules_per_folder(paths).values(), default=0))


def modules_per_folder(paths: Collection[Path]) -> Mapping[str, int]:
    """Count the modules that are directly in each folder; `__init__.py` is the folder itself."""
    counts: dict[str, int] = defaultdict(int)
    for path in paths:
        counts[named(path.parent)] += path.name != "__init__.py"
    return counts


def by_package() -> Mapping[str, Sizes]:
    """Return the sizes of each package, and of the rest by folder."""
    groups: dict[str, list[Path]] = defaultdict(list)
    for path in files():
        parts = path.relative_to(ROOT).parts
        groups["/".join(parts[:2]) if parts[0] in {"services", "tests"} else parts[0]].append(path)
    tests = [path for name in list(groups) if name.startswith("tests") for path in groups.pop(name)]
    return {name: sizes(paths) for name, paths in (groups | {"tests": tests}).items()}


def classes() -> Mapping[str, Collection[str]]:
    """Return where each public class name of the shipped code is defined."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in files(*SHIPPED):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(f"{named(path)}:{node.lineno}")
    return dict(sorted(found.items()))


def circles() -> set[str]:
    """
    Return all circles between neighbors, as `package: child, child`.

    Neighbors are the modules and sub-packages of one package; whatever one of them holds imports on its behalf, also
    late and for type checking only.
    """
    return {circle for top in TOP_PACKAGES for circle in _circles_of(grimp.build_graph(top, cache_dir=None))}


def _circles_of(graph: grimp.ImportGraph) -> Iterator[str]:
    for package in sorted(graph.modules):
        children = graph.find_children(package)
        imports = {child: _imported_by(graph, child, children) for child in children}
        reached = {child: _reached(child, imports) for child in children}
        circles = {
            frozenset(other for other in reached[child] if child in reached[other])
            for child in children
            if child in reached[child]
        }
        for circle in circles:
            yield f"{package}: {', '.join(sorted(name.removeprefix(f'{package}.') for name in circle))}"


def _imported_by(graph: grimp.ImportGraph, child: str, neighbors: Collection[str]) -> set[str]:
    modules = {child} | graph.find_descendants(child)
    imported = {name for module in modules for name in graph.find_modules_directly_imported_by(module)}
    return {
        other
        for other in neighbors
        if other != child and any(name == other or name.startswith(f"{other}.") for name in imported)
    }


def _reached(start: str, imports: Mapping[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for name in imports[waiting.pop()] - seen:
            seen.add(name)
            waiting.append(name)
    return seen


def spread(numbers: Sequence[int]) -> str:
    """Return median, 90th percentile and maximum."""
    return f"{median(numbers):.0f}, {quantiles(numbers, n=10)[-1]:.0f}, {max(numbers)}"


def keys() -> int:
    """Return the number of configuration keys, as documented."""
    return len(re.findall(r"^\| `", (ROOT / "docs/configuration.md").read_text(), re.MULTILINE))


def figures() -> str:
    """Return the sizes that matter to whoever reads the code: what there is, and how it is cut."""
    house = sizes(list(files()))
    lines = []
    for name, of in by_package().items():
        counts = f"{len(of.files):5} files {sum(of.files):7} lines {len(of.functions):5} functions"
        lines.append(f"{name:26} {counts}, {of.fullest:2} modules in its fullest folder")
    for name, numbers in (("files", house.files), ("functions", house.functions)):
        lines.append(f"{len(numbers)} {name}, {sum(numbers)} lines: median, p90, maximum {spread(numbers)}")
    for folder, count in sorted(modules_per_folder(list(files(*SHIPPED))).items(), key=lambda item: -item[1])[:10]:
        lines.append(f"{count:3} modules in {folder}")
    for name, sources in (
        ("services, tlt_common and tlt_suite", ("services", "tlt_common", "tlt_suite")),
        ("benchmarks", ("benchmarks",)),
        ("tests", ("tests",)),
    ):
        lines.append(f"{sum(sizes(list(files(*sources))).files)} lines in {name}")
    weights = [name for name, places in classes().items() if any("/weights/" in place for place in places)]
    lines.append(f"{keys()} configuration keys, {len(weights)} public classes below a folder `weights`")
    return "\n".join(lines)
