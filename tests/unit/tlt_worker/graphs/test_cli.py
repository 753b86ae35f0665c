"""`tlt engine plan`."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tlt_common.errors import ConfigError
from tlt_worker.graphs.cli import app

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


def test_the_papers_case_is_a_preset() -> None:
    answer = told("--preset", "table5")
    assert answer["naive_bytes"] / answer["bytes"] >= 2.8
    assert answer["paper_gb"] == {"single": 7.81, "every arm by itself": 30.39, "planned": 10.69}
    assert "planned 10.60 GB; single 8.23; every arm by itself 30.85 (2.9x)" in run("--preset", "table5").stdout


def test_a_gpu_gets_graphs_within_its_budget(model: str) -> None:
    answer = told("--model", model, "--device", "cuda", "--memory", "80", "--budget", "2", "--max-running", "64")
    assert answer["bytes"] <= answer["budget"] == 2 * 2**30
    assert answer["dropped"]
    assert [arm["name"] for arm in answer["arms"]][:3] == ["off", "chain-3", "chain-7"]
    assert all(arm["fits_upto"] >= 1 for arm in answer["arms"])


def test_thresholds_are_those_that_are_given(model: str) -> None:
    gpu = ("--model", model, "--device", "cuda", "--memory", "80", "--max-running", "64", "--arms", "chain-3,chain-7")
    answer = told(*gpu, "--speculate-below", "20", "--group-below", "8=4")
    assert {arm["name"]: arm["allowed_upto"] for arm in answer["arms"]} == {"off": 64, "chain-3": 19, "chain-7": 3}


def test_a_cpu_captures_nothing(model: str) -> None:
    answer = told("--model", model, "--device", "cpu", "--memory", "64", "--arms", "off,chain-3")
    assert (answer["device"], answer["captures"], answer["bytes"]) == ("cpu", [], 0)
    assert "no graphs on a CPU" in run("--model", model, "--device", "cpu", "--memory", "64").stdout


def test_the_answer_can_go_to_a_file(model: str, tmp_path: Path) -> None:
    target = tmp_path / "plan.json"
    assert run("--model", model, "--device", "cpu", "--json", str(target)).exit_code == 0
    assert json.loads(target.read_text())["device"] == "cpu"


@pytest.mark.parametrize(
    ("arguments", "field", "words"),
    [
        ([], "model", "--model DIR, or --preset table5"),
        (["--preset", "table6"], "preset", "accepted: table5"),
        (["--model", "/nowhere"], "", "Hugging Face model directory"),
        (["--model", "MODEL", "--device", "tpu"], "device", "accepted: auto, cpu, cuda"),
        (["--model", "MODEL", "--arms", "chain-99"], "arms", "'chain-99' is no arm; accepted"),
        (["--model", "MODEL", "--arms", "chain-3,chain-03"], "arms", "named twice"),
        (["--model", "MODEL", "--arms", ","], "arms", "no arm is named"),
        (["--model", "MODEL", "--group-below", "64:4"], "group-below", "TOKENS=REQUESTS"),
        (["--model", "MODEL", "--dtype", "int4"], "dtype", "accepted: bfloat16"),
        (["--model", "MODEL", "--memory", "-1"], "memory", "above 0"),
        (["--model", "MODEL", "--gpu-memory", "1.5"], "gpu-memory", "between 0 and 1"),
        (["--model", "MODEL", "--device", "cpu", "--context-length", "4"], "arms", "fewer than 4"),
        (["--model", "MODEL", "--device", "cpu", "--json", "/nowhere/x"], "json", "cannot be written"),
    ],
)
def test_bad_input_names_its_field(arguments: list[str], field: str, words: str, model: str) -> None:
    refused = run(*(model if argument == "MODEL" else argument for argument in arguments)).exception
    assert isinstance(refused, ConfigError)
    assert refused.field == field
    assert words in str(refused)
