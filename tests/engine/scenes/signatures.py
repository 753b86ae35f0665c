"""Every function of SGLang, FlashInfer and sgl_kernel that we call, replace or wrap has the signature we rely on."""

import ast
import importlib
import inspect
import os
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tlt_worker.engine.device import CPU
from tlt_worker.link.settings import LINK_VARIABLE, LinkSettings

SERVICES = Path(__file__).parents[3] / "services"
LIBRARIES = ("sglang", "sgl_kernel", "flashinfer")
STAND_IN = SERVICES / "tlt_worker" / "standin"
NOT_PASSED = {"sglang.srt.speculative.eagle_utils.chain_speculative_sampling_triton": "block_verification"}
"""Arguments passed only with settings that our engines are never launched with."""
ANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(slots=True, kw_only=True)
class SignaturesResult:
    """What was checked, and what does not fit."""

    hooks: int = 0
    overridden: int = 0
    calls: int = 0
    wrong: list[str] = field(default_factory=list)


async def signatures(work: Path) -> SignaturesResult:
    """Check all of them against the installed packages."""
    del work
    os.environ.update({**CPU.variables(), LINK_VARIABLE: LinkSettings(directory="/nonexistent").to_json()})
    CPU.enter()
    result = SignaturesResult()
    _check_hooks(result)
    _check_overridden(result)
    _check_calls(result)
    return result


def _check_hooks(result: SignaturesResult) -> None:
    from tlt_worker.scheduler.plugin import How, hooks

    for hook in {hook.target: hook for cpu in (True, False) for hook in hooks(None, cpu=cpu)}.values():
        original = pkgutil.resolve_name(hook.target)
        result.hooks += 1
        if original is None or inspect.isclass(original):  # None: a kernel that exists on other devices only
            continue
        taken = _parameters(hook.replacement)
        if hook.how is How.AROUND:
            taken = taken[1:]
        passed = [one for one in _parameters(original) if one.name != NOT_PASSED.get(hook.target)]
        result.wrong += [f"{hook.target}: {text}" for text in _unfit(passed, taken)]


def _check_overridden(result: SignaturesResult) -> None:
    """A method that replaces one of SGLang's is called by SGLang, with its arguments."""
    from tlt_worker.scheduler.blocks.worker import TltBlockWorker
    from tlt_worker.scheduler.draft_worker import TltDraftWorker
    from tlt_worker.scheduler.eagle_worker import TltWorker
    from tlt_worker.scheduler.models.block import TltDFlash, TltDSpark
    from tlt_worker.scheduler.models.eagle3 import TltEagle3

    for ours in (TltWorker, TltDraftWorker, TltBlockWorker, TltEagle3, TltDFlash, TltDSpark):
        base = next(each for each in ours.__mro__ if each.__module__.startswith("sglang"))
        for name, method in vars(ours).items():
            theirs = getattr(base, name, None)
            if not inspect.isfunction(method) or not inspect.isfunction(theirs):
                continue
            result.overridden += 1
            found = _unfit(_parameters(theirs), _parameters(method))
            result.wrong += [f"{ours.__name__}.{name}: {text}" for text in found]


def _unfit(theirs: list[inspect.Parameter], ours: list[inspect.Parameter]) -> Iterator[str]:
    """Say which arguments for `theirs` a function with parameters `ours` does not take."""
    kinds, names = {one.kind for one in ours}, [one.name for one in ours if one.kind not in ANY]
    for place, one in enumerate(theirs):
        if one.kind in ANY or one.name in names:
            continue
        by_place = one.kind is not one.KEYWORD_ONLY and (one.VAR_POSITIONAL in kinds or place < len(names))
        if not by_place and one.VAR_KEYWORD not in kinds:
            yield f"argument {one.name!r} is not taken"
    known = {one.name for one in theirs}
    for place, one in enumerate(ours):
        is_given = one.default is not one.empty or one.kind in ANY or one.name in known or place < len(theirs)
        if not is_given and not any(other.kind in ANY for other in theirs):
            yield f"parameter {one.name!r} does not exist"


def _check_calls(result: SignaturesResult) -> None:
    for path in sorted(SERVICES.rglob("*.py")):
        if STAND_IN in path.parents:
            continue
        tree = ast.parse(path.read_text())
        imported = dict(_imported(tree))
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if (target := _target(call.func, imported)) is None:
                continue
            result.calls += 1
            if why := _misfit(call, target):
                result.wrong.append(f"{path.relative_to(SERVICES)}:{call.lineno}: {ast.unparse(call.func)}: {why}")


def _imported(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    """Yield what a module imports from the libraries, by its name there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in LIBRARIES:
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                yield alias.asname or alias.name, getattr(module, alias.name)


def _target(function: ast.expr, imported: dict[str, Any]) -> Any:
    if isinstance(function, ast.Name):
        return imported.get(function.id)
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        owner = imported.get(function.value.id)
        return getattr(owner, function.attr) if inspect.ismodule(owner) or inspect.isclass(owner) else None
    return None


def _misfit(call: ast.Call, target: Any) -> str:
    """Return why a call does not fit its target; arguments that are unpacked are taken as fitting."""
    positional = [one for one in call.args if not isinstance(one, ast.Starred)]
    keywords = {one.arg: None for one in call.keywords if one.arg is not None}
    unpacks = len(positional) < len(call.args) or len(keywords) < len(call.keywords)
    signature = inspect.signature(target)
    try:
        (signature.bind_partial if unpacks else signature.bind)(*positional, **keywords)
    except TypeError as error:
        return str(error)
    return ""


def _parameters(function: Any) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())
