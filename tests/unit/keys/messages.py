"""Errors about configuration, read from the source: their text, and the key they give as their field."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
HOLE = "{}"
"""Stands for a value filled in when the error is raised."""
NAME = re.compile(r"(?<![\w./:@=*{-])(?:--[a-z][a-z-]*|[a-z]\w*(?:\.\w+)+|[a-z]+(?:_[a-z]+)+)(?![\w(/*]|\.\w)")
"""An option, a dotted name, or a name of several words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One place that rejects a configuration."""

    file: str
    line: int
    text: str
    field: str | None = None
    """The key at fault, with holes; None: the error gives none."""
    expression: str = ""
    """Expression that computes `field` if it is not a literal."""

    @property
    def names(self) -> set[str]:
        """Keys and options mentioned in the text."""
        return set(NAME.findall(self.text))


def sources() -> Iterator[Path]:
    for folder in ("services", "tlt_common", "benchmarks", "examples", "demos"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "_generated" not in path.parts:
                yield path


def refusals(path: Path, code: str | None = None) -> Iterator[Refusal]:
    """Yield calls of ConfigError and of functions that return one; in configuration models also of ValueError."""
    tree = ast.parse(path.read_text() if code is None else code)
    makers = {"ConfigError", *_makers(tree)}
    if path.stem.endswith("config"):
        makers.add("ValueError")
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in makers:
            field = next((keyword.value for keyword in node.keywords if keyword.arg == "field"), None)
            yield Refusal(
                file=str(path.relative_to(ROOT)),
                line=node.lineno,
                text=" ".join(text for argument in node.args if (text := text_of(argument)) is not None),
                field=None if field is None else text_of(field),
                expression="" if field is None or text_of(field) is not None else ast.unparse(field),
            )


def _makers(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.FunctionDef)
            and isinstance(node.returns, ast.Name)
            and node.returns.id == "ConfigError"
        ):
            yield node.name


def text_of(node: ast.AST) -> str | None:
    """Return the text of a literal or an f-string; None for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else HOLE for part in node.values)
    return None
