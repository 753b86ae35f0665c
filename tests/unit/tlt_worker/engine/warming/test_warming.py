"""Whatever is compiled at first use is known, in SGLang's source and in ours, and used by the warm-up."""

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

import tlt_worker
from tlt_common.domain.arm import OFF, arm_named, chain, ngram
from tlt_worker.engine.response import blocker
from tlt_worker.engine.warming.functions import ALWAYS, COMPILED, NEVER
from tlt_worker.engine.warming.requests import SETTINGS, batch_sizes, warm_up_requests
from tlt_worker.engine_config import CUDA_ARMS

COMPILERS = {("torch", "compile"), ("triton", "jit"), ("triton", "autotune")}


def compiles(node: ast.expr, compilers: set[tuple[str, str]]) -> bool:
    if isinstance(node, ast.Call):
        return compiles(node.func, compilers)
    return (
        isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and (node.value.id, node.attr) in compilers
    )


def compiled_in(node: ast.AST, compilers: set[tuple[str, str]], name: str = "") -> Iterator[str]:
    """Functions that are decorated by a compiler, or call one."""
    for child in ast.iter_child_nodes(node):
        inner = name
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{name}.{child.name}".lstrip(".")
            if any(compiles(each, compilers) for each in child.decorator_list):
                yield inner
        if isinstance(child, ast.Call) and compiles(child, compilers):
            yield name
        yield from compiled_in(child, compilers, inner)


def found_below(root: Path, parts: tuple[str, ...], compilers: set[tuple[str, str]]) -> set[str]:
    found = set()
    for path in (path for part in parts for path in (root / part).rglob("*.py")):
        text = path.read_text()
        if any(f"{module}.{name}" in text for module, name in compilers):
            found |= {f"{path.relative_to(root)}:{name}" for name in compiled_in(ast.parse(text), compilers)}
    return found


def test_the_list_has_every_function_that_sglang_compiles() -> None:
    spec = find_spec("sglang")
    assert spec is not None
    assert spec.origin is not None
    listed = {name for name in COMPILED if not name.startswith("tlt_")}
    assert found_below(Path(spec.origin).parent, ("srt", "kernels"), {("torch", "compile")}) == listed


def test_the_list_has_every_function_that_the_suite_compiles() -> None:
    root = Path(tlt_worker.__path__[0]).parent
    listed = {name for name in COMPILED if name.startswith("tlt_")}
    # Functions that only other kernels call are compiled with these.
    found = found_below(root, ("tlt_worker",), COMPILERS)
    assert {name for name in found if not name.partition(":")[2].startswith("_")} == listed


def test_the_warm_up_uses_each() -> None:
    users = {*SETTINGS, "trees", ALWAYS}
    assert any(arm.topk > 1 for arm in CUDA_ARMS)
    wanting = {name: by for name, by in COMPILED.items() if by not in users and not by.startswith(NEVER)}
    assert wanting == {}


def test_every_arm_runs_every_setting_alone_and_in_each_class_of_batches() -> None:
    arms = {OFF: 64, chain(3): 64, ngram(5): 40, arm_named("tree-2x4-8"): 16}
    runs = list(warm_up_requests(arms, vocabulary=1000, context=512))
    names = [prompt.request_id for run in runs for prompt in run.prompts]
    assert len(names) == len(set(names))
    for arm, most in arms.items():
        sizes = [len(run.prompts) for run in runs if run.arm == arm]
        assert set(sizes) == set(batch_sizes(most))
        assert sizes.count(1) == len(SETTINGS)
    longest = max(len(run.prompts) for run in runs)
    mixed = next(run for run in runs if len(run.prompts) == longest)
    assert len({prompt.sampling for prompt in mixed.prompts}) == len(SETTINGS)
    assert {bool(blocker(prompt)) for prompt in mixed.prompts} == {True, False}


@pytest.mark.parametrize("largest", [1, 2, 7, 8, 16, 40, 256])
def test_each_batch_size_is_in_the_class_of_one_that_is_warmed_up(largest: int) -> None:
    def of(size: int) -> tuple[bool, bool, int]:
        return size == 1, size % 16 == 0, (size - 1).bit_length()

    chosen = batch_sizes(largest)
    assert {of(size) for size in range(1, largest + 1)} == {of(size) for size in chosen}
    assert max(chosen) == largest


def test_the_requests_fit_the_smallest_model() -> None:
    for run in warm_up_requests({OFF: 1}, vocabulary=16, context=2):
        for prompt in run.prompts:
            assert len(prompt.token_ids) + (prompt.sampling.max_new_tokens or 0) <= 2
            assert max(prompt.token_ids) < 16
            prompt.for_model(vocab_size=16, context_length=2)
