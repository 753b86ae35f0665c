"""How fast workers decode, with the arms that the product's bandit chooses."""

import pytest

from tests.unit.tlt_simulator.run.scenarios import costs, scenario
from tlt_common.domain.arm import OFF, arm_named
from tlt_simulator.run.speeds import Speeds
from tlt_simulator.scenario import EngineKeys, SuiteKeys

COSTS = costs()


def speeds(*arms: str, speculates: bool = True) -> Speeds:
    keys = SuiteKeys(engine=EngineKeys(arms=arms or None), speculation=speculates)
    return Speeds(scenario(costs=COSTS, suite=keys))


def test_plain_rounds_cost_what_the_model_says() -> None:
    for batch in (1, 8, 100):
        found = speeds(speculates=False).of(batch, 0.9)
        assert found.length == 1.0
        assert found.base_s == COSTS.terms.round_s(OFF, batch, 0.0)


def test_a_good_drafter_is_used_and_a_useless_one_hardly() -> None:
    plain = speeds(speculates=False).of(1, None)
    good, bad = (speeds("off", "chain-7").of(1, quality) for quality in (0.95, 0.02))
    assert good.length / good.base_s > 2.5 * plain.length / plain.base_s
    assert bad.length / bad.base_s > 0.85 * plain.length / plain.base_s, "what is tried costs a little"


def test_without_a_drafter_only_ngrams_draft() -> None:
    assert speeds("off", "chain-7").of(1, None).length == 1.0
    assert speeds("off", "ngram-5").of(1, None).length > 1.0


def test_many_requests_do_not_draft() -> None:
    assert speeds().of(64, 0.95).length == 1.0


def test_drafts_accepted_are_those_of_the_model() -> None:
    chain = arm_named("chain-3")
    first, decay = 0.8, 0.98
    second, third = first ** (1 / decay), first ** (1 / decay**2)
    wanted = first + first * second + first * second * third
    assert COSTS.accepted(chain, first) == pytest.approx(wanted)
    tree = arm_named("tree-4x4-16")
    assert COSTS.accepted(tree, first) > COSTS.accepted(arm_named("chain-4"), first)
