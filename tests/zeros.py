"""
Numbers of which 0 is a value, tested by truth: `if version` is false at version 0.

By names, as the type checker does not tell: those of fields, properties, parameters and variables that are annotated as
an optional id, or as an optional number in the domain, wherever they are read.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

IDS = {"PolicyVersion", "Epoch"}
"""Not DrafterVersion: 0 means none."""
DOMAIN = "tlt_common/domain/"
NUMBERS = {"int", "float"}
POSITIVE = {
    "max_new_tokens",  # at least 1
    "workers",  # in the domain a tuple, too
}
"""Names of optional numbers of which 0 is not a value."""


OTHERS = {
    "services/tlt_coordinator/kube/client.py": {"version"},  # texts of Kubernetes
    "services/tlt_simulator/fit/fitting.py": {"base"},  # scenarios, tensors and versions of drafters: 0 means none
    "services/tlt_simulator/run/learning.py": {"version"},
    "services/tlt_simulator/run/simulation.py": {"version"},
    "services/tlt_trainer/sharing/drafter_sharing.py": {"base"},
    "services/tlt_trainer/sharing/drafter_sync.py": {"base"},
    "services/tlt_trainer/store/checkpoint_files.py": {"base"},
}
"""Something else of the same name."""


def zeros_lost(sources: dict[Path, str]) -> list[str]:
    """Return where such a number is tested by truth, as FILE:LINE: SOURCE."""
    trees = {path: ast.parse(text) for path, text in sources.items()}
    names = {
        name for path, tree in trees.items() for name in _annotated(tree, in_domain=path.as_posix().startswith(DOMAIN))
    } - POSITIVE
    return [
        f"{path}:{test.lineno}: {ast.unparse(test)}"
        for path, tree in trees.items()
        for test in _tests(tree)
        if _name(test) in names - OTHERS.get(path.as_posix(), set())
    ]


def _annotated(tree: ast.Module, *, in_domain: bool) -> Iterator[str]:
    wanted = IDS | NUMBERS if in_domain else IDS
    for node in ast.walk(tree):
        match node:
            case (
                ast.AnnAssign(target=ast.Name(id=name) | ast.Attribute(attr=name), annotation=kind)
                | ast.arg(arg=name, annotation=kind)
            ):
                pass
            case ast.FunctionDef(name=name, returns=kind, decorator_list=[ast.Name(id="property")]):
                pass
            case _:
                continue
        members = set(ast.unparse(kind).split(" | ")) if kind is not None else set()
        if "None" in members and members & wanted:
            yield name


def _tests(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield the expressions of which the truth matters."""
    for node in ast.walk(tree):
        match node:
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test):
                yield test
            case ast.BoolOp(values=values) | ast.comprehension(ifs=values):
                yield from values
            case ast.UnaryOp(op=ast.Not(), operand=test) | ast.Call(func=ast.Name(id="bool"), args=[test]):
                yield test


def _name(test: ast.expr) -> str:
    match test:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.NamedExpr(value=value):
            return _name(value)
    return ""
