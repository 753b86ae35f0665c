import random
import re

from hypothesis import given
from hypothesis import strategies as st

from countdown.packing import BATCH_TOKENS, ROW_LENGTHS, batches
from countdown.task import ANSWER_MARK, Step, draw_problem, verify
from countdown.traces import RESULT_WEIGHT, VERDICT_WEIGHT, drill_sample, loss_weights, trace_sample, trace_text
from countdown.vocabulary import BOS_ID, EOS_ID, WORDS, decode, encode

SEEDS = st.integers(0, 2**32)
CALCULATION = re.compile(r"(\d+) ([-+*]) (\d+) = (\d+)")
VERDICT = re.compile(r"Got (\d+) , want (\d+) , (right|too small|too big)")


def assert_all_true(text: str) -> None:
    for left, symbol, right, result in CALCULATION.findall(text):
        assert Step(left=int(left), symbol=symbol, right=int(right), result=int(result)).is_true
    for result, target, verdict in VERDICT.findall(text):
        difference = int(result) - int(target)
        assert verdict == ("right" if difference == 0 else "too big" if difference > 0 else "too small")


@given(SEEDS)
def test_a_trace_that_claims_success_verifies(seed: int) -> None:
    rng = random.Random(seed)
    problem = draw_problem(rng)
    text, solved = trace_text(problem, rng)
    assert solved == verify(problem, text) == (ANSWER_MARK in text)
    assert text.count("right") == solved
    assert_all_true(text)


@given(SEEDS)
def test_only_the_response_of_a_trace_is_learned(seed: int) -> None:
    sample = trace_sample(random.Random(seed))
    prompt_length = sample.weights.index(1.0)
    assert len(sample.ids) == len(sample.weights)
    assert sample.ids[0] == BOS_ID
    assert WORDS[sample.ids[prompt_length - 1]] == "."
    assert all(weight >= 1 for weight in sample.weights[prompt_length:])
    assert (sample.ids[-1] == EOS_ID) == (ANSWER_MARK in decode(sample.ids))


@given(SEEDS)
def test_drills_are_true_and_only_their_results_are_learned(seed: int) -> None:
    sample = drill_sample(random.Random(seed))
    assert_all_true(decode(sample.ids))
    assert set(sample.weights) <= {0.0, RESULT_WEIGHT, VERDICT_WEIGHT}
    for place in (place for place, weight in enumerate(sample.weights) if weight == RESULT_WEIGHT):
        assert WORDS[sample.ids[place - 1]] == "="


def test_results_and_verdicts_weigh_more() -> None:
    text = "7 + 2 = 9 . Got 9 , want 5 , too big ."
    weights = loss_weights(encode(text))
    assert [word for word, weight in zip(text.split(), weights, strict=True) if weight > 1] == ["9", "too", "big"]
    assert [weight for weight in weights if weight > 1] == [RESULT_WEIGHT, VERDICT_WEIGHT, VERDICT_WEIGHT]


def test_batches_are_full_and_seeded() -> None:
    for _, first, second in zip(range(8), batches(3), batches(3), strict=False):
        rows, length = first.weights_BT.shape
        assert length in ROW_LENGTHS
        assert first.token_count == rows * length == BATCH_TOKENS
        assert first.ids_BT1.shape == (rows, length + 1)
        assert first.ids_BT1.equal(second.ids_BT1)
        assert first.weights_BT.equal(second.weights_BT)
