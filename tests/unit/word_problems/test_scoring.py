"""Two drafters are scored on the same responses, prompt by prompt."""

import json
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from countdown.fresh import accept_length
from tlt_common.drafter.meta import DrafterMeta
from tlt_common.errors import ConfigError
from tlt_common.recorded_rollouts import PROMPT, RESPONSE
from tlt_trainer.drafter.files import to_files
from tlt_trainer.drafter.shared_weights import read_format
from tlt_trainer.learner import Learner
from word_problems.scoring import DRAFTS, scores

VOCABULARY = 64


@pytest.fixture(scope="module", name="policy")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("policy")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        tie_word_embeddings=True,
    )
    LlamaForCausalLM(config).save_pretrained(directory)  # type: ignore[no-untyped-call,unused-ignore]
    return directory


def drafter(policy: Path, to: Path, *, seed: int) -> str:
    """Write a drafter that has not been trained."""
    torch.manual_seed(seed)
    form = read_format(policy)
    weights = Learner(form, torch.device("cpu")).weights()
    changed = {name: tensor + 0.1 * torch.randn_like(tensor) for name, tensor in weights.items()}
    meta = DrafterMeta(version=1, base=0, worker_id="w", steps=0, tokens=0, held_out_top1=0.0)
    to.mkdir()
    for name, content in to_files(changed, form, meta).items():
        (to / name).write_bytes(content)
    return str(to)


@pytest.fixture(name="responses")
def recorded(tmp_path: Path) -> Path:
    """Write two responses to one prompt, and one to another."""
    rollouts = [([1, 2, 3], 20), ([1, 2, 3], 10), ([4, 5], 30)]
    lines = [json.dumps({PROMPT: prompt, RESPONSE: [7 + at % 50 for at in range(count)]}) for prompt, count in rollouts]
    path = tmp_path / "fresh.jsonl"
    path.write_text("\n".join(lines))
    return path


def test_both_are_scored_on_every_prompt(policy: Path, responses: Path, tmp_path: Path) -> None:
    first, second = (drafter(policy, tmp_path / f"drafter-{seed}", seed=seed) for seed in (1, 2))
    found = scores(policy, responses, temperature=0.6, frozen=first, adapted=second)
    assert [score.tokens for score in found.frozen] == [score.tokens for score in found.adapted] == [30, 30]
    assert {len(score.accepted) for score in (*found.frozen, *found.adapted)} == {DRAFTS}
    assert found.frozen != found.adapted
    assert scores(policy, responses, temperature=1.0, frozen=first, adapted=second).frozen != found.frozen
    assert 1.0 < accept_length(found.frozen) < 1 + DRAFTS


def test_a_drafter_has_the_same_score_in_both_places(policy: Path, responses: Path, tmp_path: Path) -> None:
    one = drafter(policy, tmp_path / "drafter", seed=1)
    found = scores(policy, responses, temperature=0.6, frozen=one, adapted=one)
    assert found.frozen == found.adapted


def test_a_path_without_a_drafter_is_refused(policy: Path, responses: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="accepted: the directory or URL of a published drafter"):
        scores(policy, responses, temperature=0.6, frozen=str(tmp_path), adapted=str(tmp_path))
