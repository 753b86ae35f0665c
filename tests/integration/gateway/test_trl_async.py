"""What TRL's AsyncGRPOTrainer calls, against a real gateway."""

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model

from tests.integration.gateway.small_policy import VOCAB, small_model, word_tokenizer
from tests.integration.gateway.thread import Endpoint, endpoint
from tlt_common.client import SamplingParams
from tlt_common.errors import InvalidRequestError, UnavailableError
from tlt_common.integrations.trl import TltAsyncRollouts
from tlt_common.integrations.trl.installed import sample_class

# Warnings that TRL and Transformers raise about their own code.
pytestmark = pytest.mark.filterwarnings("ignore")
ROWS = [{"prompt": "w3 w10", "column": 1}, {"prompt": "w5 w20", "column": 2}]


@pytest.fixture
def served() -> Iterator[Endpoint]:
    sample_class()  # a trainer has imported it by then; it is slow
    with endpoint(vocab_size=VOCAB) as running:
        yield running


def first_is_best(completion_ids: list[list[int]], column: list[int], **_: Any) -> list[float | None]:
    assert len(column) == len(completion_ids)
    return [1.0, *[0.0] * (len(completion_ids) - 1)]


def rollouts_of(served: Endpoint, **changes: Any) -> TltAsyncRollouts:
    options: dict[str, Any] = {
        "dataset": ROWS, "tokenizer": word_tokenizer(), "reward_funcs": [first_is_best], "num_generations": 2,
        "sampling": SamplingParams(max_new_tokens=4), "groups_in_flight": 1, "max_buffered": 2,
    }  # fmt: skip
    return TltAsyncRollouts(served.address, **options | changes)


def weights(value: int) -> Iterator[tuple[str, torch.Tensor]]:
    yield "w", torch.full((2,), float(value))


def published(rollouts: TltAsyncRollouts, version: int) -> None:
    """Do what the trainer does at the end of a step."""
    rollouts.pause()
    rollouts.send_weights(weights(version))
    rollouts.resume()
    rollouts.update_model_version(version)


def test_samples_are_scored_by_group_and_name_the_version_of_their_tokens(served: Endpoint) -> None:
    rollouts = rollouts_of(served)
    rollouts.init_weight_transfer()
    published(rollouts, 1)
    rollouts.start()
    group = [rollouts.rollout_buffer.get(timeout=20) for _ in range(2)]
    published(rollouts, 2)
    later: list[Any] = []
    while not later or later[-1].model_version < 2:  # those that were buffered or in flight come first
        later.append(rollouts.rollout_buffer.get(timeout=20))
    rollouts.check_health(60.0)
    rollouts.stop()
    rollouts.destroy()
    assert served.workers[0].updates == [1, 2]
    assert [sample.input_ids.tolist() for sample in group] == [[3, 10, 11, 12, 13, 14]] * 2
    assert [sample.completion_mask.tolist() for sample in group] == [[0, 0, 1, 1, 1, 1]] * 2
    assert group[0].old_log_probs[2:].tolist() == pytest.approx([-11 / 128, -12 / 128, -13 / 128, -14 / 128])
    assert [sample.advantage for sample in group] == pytest.approx([1.0, -1.0])
    assert {(sample.model_version, sample.group_id) for sample in group} == {(1, 0)}
    assert [sample.group_id for sample in later] == sorted(sample.group_id for sample in later)
    assert rollouts.metrics_queue.get_nowait()["rollout/duration_s"] > 0


class Sharded(torch.Tensor):
    """A tensor as FSDP2 has it."""

    def full_tensor(self) -> torch.Tensor:
        raise NotImplementedError


def test_of_an_attached_trainer_only_the_adapter_is_published(
    served: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_model().save_pretrained(tmp_path)
    model = get_peft_model(small_model(), LoraConfig(target_modules=["q_proj"], r=2))
    trainer = SimpleNamespace(model=model, accelerator=SimpleNamespace(unwrap_model=lambda model: model))
    rollouts = rollouts_of(served, adapter_base=tmp_path)
    rollouts.attach(trainer)
    rollouts.init_weight_transfer()
    gathered = iter(list(weights(1)))
    rollouts.send_weights(gathered)
    assert not list(gathered), "all ranks gather what TRL merged"
    (fake, *_) = served.workers
    assert len(fake.weights) == 5
    assert all(name == "adapter_config.json" or ".lora_" in name for name in fake.weights)
    state = {name: tensor.as_subclass(Sharded) for name, tensor in model.state_dict().items()}
    with monkeypatch.context() as changed:
        changed.setattr(model, "state_dict", lambda: state)
        with pytest.raises(InvalidRequestError, match="is sharded"):
            rollouts.send_weights(weights(2))
    trainer.model = small_model()
    rollouts.send_weights(weights(2))
    rollouts.destroy()
    assert fake.updates == [1, 2]
    assert fake.weights.keys() == {"w"}


def test_generation_waits_for_a_trainer_that_is_slow(served: Endpoint) -> None:
    rollouts = rollouts_of(served)
    rollouts.start()
    first = rollouts.rollout_buffer.get(timeout=20)
    rollouts.stop()
    assert first.group_id == 0
    assert rollouts.rollout_buffer.qsize() <= 2


def test_responses_that_become_stale_are_dropped_with_their_group(served: Endpoint) -> None:
    first_tokens, began = [0], threading.Event()

    def counted(tokens: list[int]) -> int:
        first_tokens[0] += 1
        if first_tokens[0] == 2:  # of the first group's two responses
            began.set()
        return (tokens[-1] + 1) % VOCAB

    for worker in served.workers:
        worker.next_token, worker.free_tokens = counted, 1  # type: ignore[assignment]
    served.gate(open_=False)
    rollouts = rollouts_of(served, max_staleness=0)
    rollouts.init_weight_transfer()
    rollouts.start()
    assert began.wait(20)
    published(rollouts, 1)
    served.gate(open_=True)
    samples = [rollouts.rollout_buffer.get(timeout=20) for _ in range(2)]
    rollouts.stop()
    rollouts.destroy()
    assert {(sample.group_id, sample.model_version) for sample in samples} == {(1, 1)}
    assert rollouts.metrics_queue.get_nowait() == {"sample/dropped_stale_total": 2.0}
    assert {prompt.max_staleness for worker in served.workers for prompt in worker.prompts} == {0}


def test_a_reward_function_that_fails_is_told_to_the_trainer(served: Endpoint) -> None:
    def fails(**_: Any) -> list[float | None]:
        raise ValueError("no such answer")

    rollouts = rollouts_of(served, reward_funcs=[fails])
    rollouts.start()
    rollouts._thread.join(20)  # type: ignore[union-attr]
    with pytest.raises(UnavailableError, match="rollouts ended: no such answer"):
        rollouts.check_health(60.0)
    rollouts.stop()


def test_what_cannot_be_compared_or_rewarded_is_refused(served: Endpoint) -> None:
    with pytest.raises(InvalidRequestError, match="num_generations"):
        rollouts_of(served, num_generations=1)
    with pytest.raises(InvalidRequestError, match="reward_funcs"):
        rollouts_of(served, reward_funcs=[])
    with pytest.raises(UnavailableError, match="init_weight_transfer"):
        rollouts_of(served).send_weights(weights(1))
