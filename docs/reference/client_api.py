"""docs/client-api.md: the public client API, from the source of its classes."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from types import ModuleType

from reference.docstrings import markdown
from tlt_common import client, errors
from tlt_common.domain import server_info, weights
from tlt_common.integrations import openrlhf, trl

SECTIONS: tuple[tuple[str, ModuleType, tuple[str, ...]], ...] = (
    ("Clients", client, ("Client", "BlockingClient", "RolloutLog")),
    (
        "Requests and responses",
        client,
        ("SamplingParams", "Speculation", "LogprobKind", "TokenChunk", "Sample", "FinishReason", "ResponseStats"),
    ),
    ("Weights and fleet", weights, ("UpdateResult",)),
    ("", server_info, ("ServerInfo", "Bubbles")),
    ("TRL", trl, ("TltRollouts", "Rollout", "TltAsyncRollouts")),
    ("OpenRLHF", openrlhf, ("TltEngine",)),
    ("Errors", errors, ("TltError",)),
)
WIDTH = 100
INTRODUCTION = """# Client API

For people who write a training loop or an integration.

Install the client with `pip install 'tlt-suite[client]'`. It needs neither torch nor an engine. Import clients and
request types from `tlt_common.client`, errors from `tlt_common.errors`, and the integrations for trainers from
`tlt_common.integrations.trl` and `openrlhf`; [Trainers](trainers.md) says which trainer needs which.
"""


def page() -> str:
    """One section per group of classes."""
    parts = [INTRODUCTION]
    for title, module, names in SECTIONS:
        if title:
            parts.append(f"## {title}\n")
        for name in names:
            parts += _class(name, inspect.getsource(getattr(module, name)))
        if module is errors:
            parts.append(f"```\n{(errors.__doc__ or '').strip()}\n```\n")
    return "\n".join(parts)


def _class(name: str, source: str) -> Iterator[str]:
    (node,) = ast.parse(textwrap.dedent(source)).body
    assert isinstance(node, ast.ClassDef)  # noqa: S101 - it is the source of a class
    yield f"### {name}\n"
    yield markdown(ast.get_docstring(node) or "")
    if fields := list(_fields(node)):
        yield "\n".join(fields) + "\n"
    for method in node.body:
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _method(name, method)


def _fields(node: ast.ClassDef) -> Iterator[str]:
    """Fields and enum members, each with the docstring below it."""
    for item, following in zip(node.body, [*node.body[1:], None], strict=True):
        text = ""
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            text = " ".join(str(following.value.value).split())
        annotated = isinstance(item, ast.AnnAssign) and not ast.unparse(item.target).startswith("_")
        if annotated or (isinstance(item, ast.Assign) and isinstance(item.value, ast.Constant)):
            yield f"- `{ast.unparse(item)}`" + (f": {text}" if text else "")


def _method(owner: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    constructor = node.name == "__init__"
    if node.name.startswith("_") and not constructor:
        return
    docstring = ast.get_docstring(node)
    decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
    if not constructor:
        yield f"#### {owner}.{node.name}\n"
    yield f"```python\n{_signature(owner, node, is_property='property' in decorators)}\n```\n"
    if docstring:
        yield markdown(docstring)


def _signature(owner: str, node: ast.FunctionDef | ast.AsyncFunctionDef, *, is_property: bool) -> str:
    returned = f" -> {ast.unparse(node.returns)}" if node.returns and node.name != "__init__" else ""
    if is_property:
        return f"{node.name}{returned.replace(' ->', ':')}"
    arguments = node.args
    arguments.args = [argument for argument in arguments.args if argument.arg not in {"self", "cls"}]
    name = owner if node.name == "__init__" else node.name
    prefix = "async " if isinstance(node, ast.AsyncFunctionDef) and "Generator" not in returned else ""
    parts = list(_parts(arguments))
    line = f"{prefix}{name}({', '.join(parts)}){returned}"
    if len(line) <= WIDTH:
        return line
    return f"{prefix}{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){returned}"


def _parts(arguments: ast.arguments) -> Iterator[str]:
    """Each argument by itself, with its annotation and default."""
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    for argument, default in zip(positional, defaults, strict=True):
        yield _part(argument, default)
    if arguments.vararg:
        yield f"*{ast.unparse(arguments.vararg)}"
    elif arguments.kwonlyargs:
        yield "*"
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _part(argument, default)
    if arguments.kwarg:
        yield f"**{ast.unparse(arguments.kwarg)}"


def _part(argument: ast.arg, default: ast.expr | None) -> str:
    if default is None:
        return ast.unparse(argument)
    value = ast.unparse(default)
    return f"{ast.unparse(argument)} = {'...' if value.startswith('_') else value}"  # a private name says nothing
