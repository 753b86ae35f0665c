"""Costs of cards and models that nobody has measured here."""

import json

import pytest

from tlt_common.domain.arm import OFF, chain, ngram
from tlt_common.errors import ConfigError
from tlt_simulator.costs.figure import Source
from tlt_simulator.costs.published.rounds import PUBLISHED_ROUNDS, PUBLISHED_SHAPES
from tlt_simulator.costs.roofline import NAMES, calculated, model_config
from tlt_worker.commands.cards import CONFIGS, READ_SHARES
from tlt_worker.commands.round_plan import BATCHES, CONTEXT, DRAFTS, planned_rounds
from tlt_worker.engine_config import EngineConfig


def test_every_published_round_names_its_source_and_a_shape() -> None:
    for row in PUBLISHED_ROUNDS:
        assert row.source.startswith("https://"), row
        assert row.model in PUBLISHED_SHAPES, row
        assert row.card in READ_SHARES, row


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("llama2-7b", 6.74),
        ("llama2-70b", 68.98),
        ("llama3-8b", 8.03),
        ("qwen2.5-72b", 72.71),
        ("qwen3-8b", 8.19),
        ("qwen3-14b", 14.77),
        ("qwen3-32b", 32.76),
    ],
)
def test_shapes_of_published_rounds_have_the_parameters_of_their_models(name: str, billions: float) -> None:
    assert PUBLISHED_SHAPES[name].parameters / 1e9 == pytest.approx(billions, abs=0.01)


@pytest.mark.parametrize("card", READ_SHARES)
@pytest.mark.parametrize("model", NAMES)
def test_every_card_and_model_has_costs_that_say_where_they_come_from(card: str, model: str) -> None:
    costs = calculated(card, model, 4)
    figures = dict(costs.figures())
    assert {figure.source for figure in figures.values()} == {Source.CALCULATED, Source.PUBLISHED, Source.ASSUMED}
    assert all(figure.of for name, figure in figures.items())
    assumed = [name for name, figure in figures.items() if figure.source is Source.ASSUMED]
    assert all(figures[name].least < figures[name].most for name in assumed)


def test_rounds_get_longer_with_requests_with_the_cache_and_with_drafts() -> None:
    costs = calculated("h100", "7b")
    alone_s = costs.terms.round_s(OFF, 1, 4000)
    assert alone_s < costs.terms.round_s(OFF, 1, 32_000)
    assert alone_s < costs.terms.round_s(OFF, 64, 4000)
    assert alone_s < costs.terms.round_s(chain(3), 1, 4000) < costs.terms.round_s(chain(7), 1, 4000)


def test_each_row_of_a_round_takes_longer_from_the_first_on() -> None:
    costs = calculated("h100", "7b")
    first_s, second_s = (costs.terms.round_s(ngram(drafts), 1, 0) - costs.terms.round_s(OFF, 1, 0) for drafts in (1, 5))
    assert second_s - first_s == pytest.approx(4 * costs.round_token_s.value)
    assert costs.round_token_s.value == pytest.approx(21e-6, rel=0.2)


def test_a_group_of_cards_is_faster_than_one_and_not_as_many_times() -> None:
    one, four = calculated("h100", "32b"), calculated("h100", "32b", 4)
    assert 2.0 < one.terms.round_s(OFF, 1, 1000) / four.terms.round_s(OFF, 1, 1000) < 4.0
    assert four.device == "4 x h100"


def test_a_mixture_of_experts_reads_more_of_them_for_more_tokens() -> None:
    terms = calculated("h100", "30b-a3b").terms
    one, many, every = (terms.parts(OFF, rows, 0)["expert_read_s"] for rows in (1, 16, 10_000))
    assert one == pytest.approx(terms.expert_read_s * 8 / 128)
    assert one < many < every == pytest.approx(terms.expert_read_s)
    assert calculated("h100", "32b").expert_read_s.value == 0.0


@pytest.mark.parametrize("card", READ_SHARES)
@pytest.mark.parametrize(
    ("model", "gpus", "drafter"),
    [("7b", 1, "eagle"), ("32b", 4, "eagle"), ("30b-a3b", 2, "eagle"), ("mimo-7b", 1, "mtp")],
)
def test_an_engine_plan_prints_the_rounds_that_are_simulated(card: str, model: str, gpus: int, drafter: str) -> None:
    engine = EngineConfig(tensor_parallel=gpus)
    planned = planned_rounds(engine, model_config(model), card, "bfloat16")
    terms, rounds = calculated(card, model, gpus).terms, [one for one in planned if one.drafter == drafter]
    assert {(one.batch, one.drafts) for one in rounds} == {(batch, drafts) for batch in BATCHES for drafts in DRAFTS}
    for one in rounds:
        kv_tokens = one.batch * CONTEXT
        assert one.round_ms == pytest.approx(1e3 * terms.round_s(chain(one.drafts), one.batch, kv_tokens))
        assert one.plain_ms == pytest.approx(1e3 * terms.round_s(OFF, one.batch, kv_tokens))


def test_a_model_may_be_a_directory(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS["qwen2.5-7b"]))
    named, read = calculated("h100", "7b"), calculated("h100", str(tmp_path))
    assert dict(named.figures()) == dict(read.figures())


@pytest.mark.parametrize(
    ("card", "model", "gpus", "field", "accepted"),
    [
        ("v100", "7b", 1, "card", "a100-80, h100, h200, b200"),
        ("h100", "9b", 1, "model", "7b, 14b, 32b, 70b, 30b-a3b"),
        ("h100", "7b", 8, "engine.tensor_parallel", "28 attention heads"),
        ("h100", "", 1, "model", "config.json"),
    ],
)
def test_what_is_not_known_is_refused_by_name(card: str, model: str, gpus: int, field: str, accepted: str) -> None:
    with pytest.raises(ConfigError, match=accepted) as refused:
        calculated(card, model, gpus)
    assert refused.value.field == field
