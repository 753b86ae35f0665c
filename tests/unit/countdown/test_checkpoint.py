"""The checkpoint that ships with the package."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM
from typer.testing import CliRunner

from countdown.cli import app
from countdown.evaluation import summarize
from countdown.model import CHECKPOINT
from countdown.sampling import Response, sample
from countdown.settings import LAYERS
from countdown.task import Mix, Problem, draw_problems
from countdown.vocabulary import EOS_ID, VOCABULARY, encode, prompt_ids

PROBLEM = Problem(numbers=(2, 7), target=5)
RIGHT = (*encode("Answer : 7 - 2 = 5"), EOS_ID)
WRONG = (*encode("Answer : 7 + 2 = 9"), EOS_ID)


@pytest.fixture(scope="module")
def policy() -> LlamaForCausalLM:
    policy = AutoModelForCausalLM.from_pretrained(CHECKPOINT, dtype=torch.float32)
    assert isinstance(policy, LlamaForCausalLM)
    return policy


def test_the_checkpoint_is_small_and_complete(policy: LlamaForCausalLM) -> None:
    assert {path.name for path in CHECKPOINT.iterdir()} >= {"config.json", "model.safetensors", "tokenizer.json"}
    assert sum(path.stat().st_size for path in CHECKPOINT.iterdir()) < 8_000_000
    assert policy.config.num_hidden_layers == LAYERS


def test_its_tokenizer_is_the_one_the_code_writes() -> None:
    tokenizer = AutoTokenizer.from_pretrained(CHECKPOINT)
    assert tokenizer.get_vocab() == VOCABULARY
    assert tokenizer(PROBLEM.prompt).input_ids == prompt_ids(PROBLEM.prompt)


def test_it_solves_most_small_problems(policy: LlamaForCausalLM) -> None:
    problems = draw_problems(24, seed=7, mix=Mix(two=1.0, three=0.0, four=0.0))
    evaluation = summarize(sample(policy, problems, cap_tokens=384, seed=0))
    assert evaluation.accuracy > 0.5
    assert evaluation.max_tokens > 2 * evaluation.p50_tokens


def test_sampling_repeats_and_respects_the_cap(policy: LlamaForCausalLM) -> None:
    problems = draw_problems(6, seed=1)
    first, second = (sample(policy, problems, cap_tokens=12, seed=3) for _ in range(2))
    assert first == second
    assert sorted(response.problem.prompt for response in first) == sorted(problem.prompt for problem in problems)
    assert all(len(response.ids) == 12 for response in first)


def test_an_evaluation_counts_right_wrong_and_cut_responses() -> None:
    responses = [Response(problem=PROBLEM, ids=ids) for ids in (RIGHT, WRONG, RIGHT[:-1], RIGHT)]
    evaluation = summarize(responses)
    assert (evaluation.accuracy, evaluation.wrong_share, evaluation.cut_share) == (0.5, 0.25, 0.25)
    assert evaluation.accuracy_by_count == {2: 0.5}
    assert evaluation.max_tokens == len(RIGHT)


def test_nothing_cannot_be_evaluated() -> None:
    with pytest.raises(ValueError, match="at least one"):
        summarize([])


def test_the_command_evaluates_a_checkpoint() -> None:
    arguments = ["evaluate", "--checkpoint", str(CHECKPOINT), "--count", "3", "--cap", "8", "--threads", "1"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    assert "3 responses" in result.stdout


def test_the_command_trains_a_checkpoint(tmp_path: Path) -> None:
    out = tmp_path / "made"
    result = CliRunner().invoke(app, ["make-model", "--out", str(out), "--minutes", "0.1", "--threads", "1"])
    assert result.exit_code == 0
    AutoModelForCausalLM.from_pretrained(out)
