"""`tlt engine plan`."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tlt_common.errors import ConfigError
from tlt_worker.commands.engine import app

CONFIG = {
    "num_hidden_layers": 28,
    "hidden_size": 3584,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "intermediate_size": 18944,
    "vocab_size": 152064,
    "max_position_embeddings": 32768,
}


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return str(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["plan", *arguments])


def told(*arguments: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(run(*arguments, "--json", "-").stdout)
    return answer


def plan_of(model: str, *keys: str) -> tuple[str, ...]:
    """Options for a model and keys of the worker."""
    return tuple(part for key in (f"model={model}", *keys) for part in ("--set", key))


def test_a_gpu_gets_graphs_within_its_budget(model: str) -> None:
    keys = plan_of(model, f"engine.graph_bytes={2 * 2**30}", "engine.max_running=64")
    answer = told(*keys, "--device", "cuda", "--memory", "80")
    assert answer["bytes"] <= answer["budget"] == 2 * 2**30
    assert answer["dropped"]
    assert [arm["name"] for arm in answer["arms"]][:3] == ["off", "chain-3", "chain-7"]
    assert all(arm["fits_upto"] >= 1 for arm in answer["arms"])


def test_a_gpu_is_divided_without_a_rest() -> None:
    seven = ("--card", "h100", "--model-shape", "qwen2.5-7b")
    answer = told(*seven)
    assert answer["plan_gib_unplanned"] == 0
    assert sum(answer["gib"].values()) + answer["plan_gib_free"] == pytest.approx(answer["plan_gib_total"], abs=0.1)
    assert (answer["attention"], answer["warnings"]) == ("fa3", [])
    assert "unplanned" in run(*seven).stdout


def test_what_does_not_fit_is_a_warning() -> None:
    shown = run("--card", "a100-40", "--model-shape", "qwen2.5-7b").stdout
    assert "warning: 39.4 GiB per GPU are too small for the default arms" in shown


def test_the_plan_is_that_of_the_workers_configuration(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "worker.yaml"
    engine = {"max_running": 64, "arms": ["chain-3", "chain-7"], "group_below_requests": {8: 4}}
    file.write_text(json.dumps({"model": model, "engine": engine, "coordinator": "127.0.0.1:1"}))
    monkeypatch.setenv("TLT_WORKER_ENGINE__SPECULATE_BELOW_REQUESTS", "20")
    gpu = ("--config", str(file), "--device", "cuda", "--memory", "80")
    answer = told(*gpu)
    assert {arm["name"]: arm["allowed_upto"] for arm in answer["arms"]} == {"off": 64, "chain-3": 19, "chain-7": 3}
    assert {arm["name"] for arm in told(*gpu, "--set", "engine.arms=off")["arms"]} == {"off"}


def test_a_cpu_captures_nothing(model: str) -> None:
    cpu = (*plan_of(model, "engine.arms=off,chain-3"), "--device", "cpu", "--memory", "64")
    answer = told(*cpu)
    assert (answer["device"], answer["captures"], answer["bytes"]) == ("cpu", [], 0)
    assert "no graphs on a CPU" in run(*cpu).stdout


def test_a_cpu_holds_weights_drafter_and_the_cache_of_all_contexts(model: str) -> None:
    def of(*keys: str) -> dict[str, float]:
        gib: dict[str, float] = told(*plan_of(model, "engine.arms=off,chain-3", *keys), "--device", "cpu")["gib"]
        return gib

    assert set(of()) == {"weights", "packed weights", "drafter", "KV cache", "rounds"}
    assert 0 < of()["packed weights"] < of()["weights"]
    cache = of("engine.max_running=512")["KV cache"]
    assert 0 < cache < of("engine.max_running=1024")["KV cache"]
    assert of("engine.max_running=1024", "engine.max_total_tokens=1024")["KV cache"] < cache
    assert "KV cache" in run(*plan_of(model), "--device", "cpu").stdout


def test_an_eagle3_drafter_reads_more_states(model: str) -> None:
    def kept(*keys: str) -> int:
        answer = told(*plan_of(model, "engine.arms=chain-7", *keys), "--device", "cpu", "--memory", "8")
        fits: int = answer["arms"][-1]["fits_upto"]
        return fits

    assert kept("engine.drafter_architecture=eagle3") <= kept()


def test_the_answer_can_go_to_a_file(model: str, tmp_path: Path) -> None:
    target = tmp_path / "plan.json"
    assert run(*plan_of(model), "--device", "cpu", "--json", str(target)).exit_code == 0
    assert json.loads(target.read_text())["device"] == "cpu"


@pytest.mark.parametrize(
    ("keys", "options", "field", "words"),
    [
        (("model=/nowhere",), [], "model", "Hugging Face model directory"),
        ((), ["--config", "/nowhere.yaml"], "config", "No such file"),
        ((), ["--card", "h300"], "card", "accepted: l4, 4090, a100-40"),
        ((), ["--model-shape", "gpt"], "model_shape", "accepted: qwen2.5-7b"),
        ((), ["--device", "tpu"], "device", "accepted: auto, cpu, cuda"),
        (("engine.arms=chain-99",), [], "engine.arms", "unknown arm 'chain-99'; accepted"),
        (("engine.arms=chain-3,chain-03",), [], "engine.arms", "listed twice"),
        (("engine.arms=,",), [], "engine.arms", "the list of arms is empty"),
        (("engine.speed=9",), [], "engine.speed", "unknown key 'engine.speed'"),
        (("engine.dtype=int4",), [], "engine.dtype", "'bfloat16', 'float16' or 'float32'"),
        (("engine.gpu_memory=1.5",), [], "engine.gpu_memory", "less than 1"),
        (("engine.context_length=4",), ["--device", "cpu"], "engine.arms", "fewer than 4"),
        (("engine.drafter=/nowhere",), ["--device", "cpu"], "engine.drafter", "/nowhere"),
        ((), ["--memory", "-1"], "memory", "above 0"),
        ((), ["--device", "cpu", "--json", "/nowhere/x"], "json", "cannot be written"),
    ],
)
def test_bad_input_names_its_field(
    keys: tuple[str, ...], options: list[str], field: str, words: str, model: str
) -> None:
    refused = run(*plan_of(model, *keys), *options).exception
    assert isinstance(refused, ConfigError)
    assert refused.field == field
    assert words in str(refused)


def test_a_model_is_needed() -> None:
    refused = run("--device", "cpu").exception
    assert isinstance(refused, ConfigError)
    assert refused.field == "model"
