import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.tlt_common.bandit.rounds import make_round
from tlt_common.bandit.round_trace import TracedRound, header, line_of, parsed, parsed_header
from tlt_common.domain.arm import DEFAULT_ARMS, chain, ngram, tree
from tlt_common.domain.ids import DrafterVersion
from tlt_common.errors import ConfigError

arms = st.sampled_from([*DEFAULT_ARMS, tree(3, 2, 6), ngram(4), chain(7, sampled=False)])


@st.composite
def rounds(draw: st.DrawFn) -> TracedRound:
    arm = draw(arms)
    accepted = draw(st.lists(st.integers(0, arm.steps), min_size=1, max_size=40))
    return TracedRound(
        at_s=round(draw(st.floats(0, 1e6)), 6),
        arm=arm,
        accepted=tuple(accepted),
        elapsed_s=round(draw(st.floats(1e-6, 100)), 7),
        drafted=draw(st.integers(sum(accepted), 10_000)),
        drafter=DrafterVersion(draw(st.integers(0, 9))),
        policy=draw(st.integers(0, 9)),
    )


@given(rounds())
def test_a_round_comes_back_as_it_was(played: TracedRound) -> None:
    assert parsed("a line", line_of(played)) == played


def test_the_first_line_may_say_more() -> None:
    assert parsed_header("line 1", header(device="cpu"))["device"] == "cpu"


@given(st.integers(1, 40), st.data())
def test_a_sum_is_spread_over_the_requests(batch: int, data: st.DataObject) -> None:
    kept = data.draw(st.integers(0, 7 * batch))
    line = json.dumps({"at_s": 0, "arm": "chain-7", "batch": batch, "accepted": kept, "elapsed_s": 1})
    played = parsed("a line", line)
    assert (played.batch, sum(played.accepted), played.drafted) == (batch, kept, 7 * batch)
    assert max(played.accepted) - min(played.accepted) <= 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("arm", "chain-99"),
        ("arm", None),
        ("batch", 0),
        ("batch", 1.5),
        ("batch", True),
        ("accepted", 99),
        ("accepted", [3]),
        ("accepted", [3, 8]),
        ("accepted", "3"),
        ("drafted", 3),
        ("elapsed_s", 0),
        ("elapsed_s", True),
        ("elapsed_s", 10**400),
        ("at_s", -1),
        ("drafter", -1),
        ("policy", "new"),
        ("color", "red"),
    ],
)
def test_what_is_no_round_is_refused_by_line_and_field(field: str, value: Any) -> None:
    fields = json.loads(line_of(make_round())) | {field: value}
    with pytest.raises(ConfigError, match=r"^rounds\.jsonl:7: .*accepted: ") as refused:
        parsed("rounds.jsonl:7", json.dumps(fields))
    assert refused.value.field == field


@pytest.mark.parametrize("field", ["at_s", "arm", "batch", "accepted", "elapsed_s"])
def test_what_a_round_must_say_is_asked_for(field: str) -> None:
    fields = json.loads(line_of(make_round()))
    del fields[field]
    with pytest.raises(ConfigError) as refused:
        parsed("rounds.jsonl:7", json.dumps(fields))
    assert refused.value.field == field


@pytest.mark.parametrize("line", ["", "[]", "{", '{"format": "other"}'])
def test_another_file_is_refused_by_its_first_line(line: str) -> None:
    with pytest.raises(ConfigError, match="accepted"):
        parsed_header("line 1", line)
