"""Conversations with tools and environments, for TRL's AsyncGRPOTrainer, against a real gateway."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.integration.gateway import library
from tests.integration.gateway.library import look
from tests.integration.gateway.small_policy import TEMPLATE, VOCAB, chat_tokenizer, word_tokenizer
from tests.integration.gateway.thread import Endpoint, endpoint
from tlt_common.client import SamplingParams
from tlt_common.errors import InvalidRequestError, UnavailableError
from tlt_common.integrations.trl import TltAsyncRollouts
from tlt_common.integrations.trl.chat import ChatTokenizer
from tlt_common.integrations.trl.installed import sample_class

# Warnings that TRL and Transformers raise about their own code.
pytestmark = pytest.mark.filterwarnings("ignore")
ROWS = [{"prompt": [{"role": "user", "content": "w10"}], "column": 1}]


@pytest.fixture
def served() -> Iterator[Endpoint]:
    sample_class()  # a trainer has imported it by then; it is slow
    with endpoint(vocab_size=VOCAB) as running:
        yield running


async def look_later(word: str) -> str:
    """
    Look a word up.

    Args:
        word: The word.
    """
    raise ValueError(f"w21 {word}")


look_later.__name__ = "look"


class Library(library.Library):
    """One that is counted, and to which its row's column is a question."""

    made = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).made += 1

    def reset(self, **row: Any) -> str:
        observation = super().reset()
        self.asked.append(str(row["column"]))
        return observation


def lengths(completion_ids: list[list[int]], **_: Any) -> list[float | None]:
    return [float(len(ids) + index) for index, ids in enumerate(completion_ids)]


def rollouts_of(served: Endpoint, **changes: Any) -> TltAsyncRollouts:
    options: dict[str, Any] = {
        "dataset": ROWS, "tokenizer": chat_tokenizer(), "reward_funcs": [lengths], "num_generations": 2,
        "sampling": SamplingParams(max_new_tokens=10, stop_token_ids=(9,)), "groups_in_flight": 1, "max_buffered": 2,
        "max_tool_calling_iterations": 1,
    }  # fmt: skip
    return TltAsyncRollouts(served.address, **options | changes)


def first_group(rollouts: TltAsyncRollouts) -> list[Any]:
    rollouts.start()
    try:
        return [rollouts.rollout_buffer.get(timeout=20) for _ in range(2)]
    except BaseException:
        rollouts.check_health(0.0)
        raise
    finally:
        rollouts.stop()


def until_it_fails(rollouts: TltAsyncRollouts) -> None:
    rollouts.start()
    rollouts._thread.join(20)  # type: ignore[union-attr]
    rollouts.check_health(60.0)


def test_what_tools_return_is_generated_from_and_not_learned(served: Endpoint) -> None:
    group = first_group(rollouts_of(served, tools=[look]))
    for sample in group:
        assert sample.input_ids.tolist() == [10, 5, 6, 7, 8, 9, 20, 7, 5, 6, 7, 8]
        assert sample.completion_mask.tolist() == [0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1]
        sampled = [-id_ / 128 for id_ in (6, 7, 8, 9)], [-id_ / 128 for id_ in (6, 7, 8)]
        assert sample.old_log_probs.tolist() == pytest.approx([0, 0, *sampled[0], 0, 0, 0, *sampled[1]])
        assert [message["role"] for message in sample.completion] == ["assistant", "tool", "assistant"]
        assert (sample.metrics["tools/call_frequency"], sample.metrics["tools/failure_frequency"]) == (1.0, 0.0)
    assert [sample.metrics["reward"] for sample in group] == [7.0, 8.0]
    turns = [prompt for fake in served.workers for prompt in fake.prompts]  # of later groups, too
    assert {len(prompt.token_ids) for prompt in turns} == {2, 9}
    assert {prompt.sampling.max_new_tokens for prompt in turns} == {10, 3}
    begun = [prompt.session_id for prompt in turns if len(prompt.token_ids) == 2]
    continued = [prompt.session_id for prompt in turns if len(prompt.token_ids) == 9]
    assert len(set(begun)) == len(begun) >= 2
    assert len(set(continued)) == len(continued) >= 2
    assert set(continued) <= set(begun)


def test_a_tool_that_fails_tells_the_policy_why(served: Endpoint) -> None:
    sample, _ = first_group(
        rollouts_of(served, tools=[look_later], sampling=SamplingParams(max_new_tokens=20, stop_token_ids=(9,)))
    )
    assert sample.completion[1]["content"] == "{'error': 'w21 w7'}"
    assert sample.metrics["tools/failure_frequency"] == 1.0


def test_results_that_leave_no_room_are_dropped(served: Endpoint) -> None:
    sampling = SamplingParams(max_new_tokens=7, stop_token_ids=(9,))
    sample, _ = first_group(rollouts_of(served, tools=[look], sampling=sampling, max_tool_calling_iterations=None))
    assert sample.input_ids.tolist() == [10, 5, 6, 7, 8, 9]
    assert [message["role"] for message in sample.completion] == ["assistant"]


def test_what_a_template_puts_behind_an_end_token_follows_the_sampled_one() -> None:
    tokenizer = chat_tokenizer()
    tokenizer.chat_template = TEMPLATE.replace("<eos> {% else %}", "<eos> w33 {% else %}")
    chat = ChatTokenizer(tokenizer, uses_tools=True)
    assert chat.results_ids([{"role": "tool", "name": "look", "content": "w20"}]) == [33, 20, 5]


def test_environments_are_observed_called_rewarded_and_used_again(served: Endpoint) -> None:
    Library.made = 0
    rollouts = rollouts_of(served, reward_funcs=[], environment_factory=Library, max_buffered=8)
    rollouts.start()
    samples = [rollouts.rollout_buffer.get(timeout=20) for _ in range(6)]
    rollouts.stop()
    assert Library.made == 2  # one for each conversation of a group
    for sample in samples:
        assert sample.input_ids.tolist()[:3] == [10, 30, 5]
        assert sample.prompt == [{"role": "user", "content": "w10 w30"}]
        assert sample.metrics["rewards/Library"] == sample.metrics["reward"] == 2.0


def test_a_row_chooses_its_environment(served: Endpoint) -> None:
    class Other(Library):
        def reset(self, column: int = 0, **_: Any) -> str:
            self.asked = []
            return " w31"

    rows = [{"column": 1, "environment": "other"}]
    factories = {"library": Library, "other": Other}
    sample, _ = first_group(rollouts_of(served, dataset=rows, reward_funcs=[], environment_factory=factories))
    assert sample.input_ids.tolist()[:2] == [31, 5]
    assert sample.metrics["rewards/Other"] == 1.0
    rollouts = rollouts_of(served, dataset=[{"environment": "x"}], reward_funcs=[], environment_factory=factories)
    with pytest.raises(UnavailableError, match="environment of a row is 'x'; accepted: library, other"):
        until_it_fails(rollouts)


def test_a_conversation_that_becomes_stale_is_dropped(served: Endpoint) -> None:
    began, goes_on = threading.Event(), threading.Event()

    def wait(word: str) -> str:
        """
        Look a word up.

        Args:
            word: The word.
        """
        began.set()
        assert goes_on.wait(20)
        return f"w20 {word}"

    wait.__name__ = "look"
    rollouts = rollouts_of(served, tools=[wait], max_staleness=0)
    rollouts.init_weight_transfer()
    rollouts.start()
    assert began.wait(20)
    rollouts.send_weights(iter([("w", torch.ones(2))]))
    rollouts.update_model_version(1)
    goes_on.set()
    group = [rollouts.rollout_buffer.get(timeout=20) for _ in range(2)]
    rollouts.stop()
    rollouts.destroy()
    assert {(sample.group_id, sample.model_version) for sample in group} == {(1, 1)}
    dropped = [rollouts.metrics_queue.get_nowait() for _ in range(rollouts.metrics_queue.qsize())]
    assert dropped[0] == {"sample/dropped_stale_total": 2.0}


def test_each_turn_has_a_seed_of_its_own(served: Endpoint) -> None:
    first_group(
        rollouts_of(served, tools=[look], sampling=SamplingParams(max_new_tokens=10, stop_token_ids=(9,), seed=3))
    )
    seeds = [prompt.sampling.seed for fake in served.workers for prompt in fake.prompts]
    assert None not in seeds
    assert len(set(seeds)) == len(seeds)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tools": [look], "sampling": SamplingParams()}, "sampling.max_new_tokens is None"),
        ({"tools": [look], "tokenizer": word_tokenizer()}, "chat template does not render tool calls"),
        ({"environment_factory": object}, "object has no method reset"),
    ],
)
def test_what_tools_need_is_named(served: Endpoint, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        rollouts_of(served, **changes)


@pytest.mark.parametrize(
    ("dataset", "message"),
    [([{"prompt": "w3"}], "prompt is 'w3'; accepted: a conversation"), ([], "dataset is empty")],
)
def test_rows_that_cannot_be_played_are_named(served: Endpoint, dataset: list[Any], message: str) -> None:
    with pytest.raises(UnavailableError, match=message):
        until_it_fails(rollouts_of(served, tools=[look], dataset=dataset))
