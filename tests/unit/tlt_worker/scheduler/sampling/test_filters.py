"""Cutting distributions, against the rule written out for one row."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tlt_worker.scheduler.sampling import filters, threshold
from tlt_worker.scheduler.sampling.cuts import Cuts
from tlt_worker.scheduler.sampling.filters import truncate
from tlt_worker.scheduler.sampling.forms import FORMS, Form, form_of

ALL = 1 << 30


def cuts(top_k: int = ALL, top_p: float = 1.0, min_p: float = 0.0, rows: int = 1) -> Cuts:
    return Cuts(
        top_ks=torch.full((rows,), top_k, dtype=torch.int32),
        top_ps=torch.full((rows,), top_p),
        min_ps=torch.full((rows,), min_p),
    )


def written_out(probs: list[float], top_k: int, top_p: float, min_p: float) -> list[float]:
    order = sorted(range(len(probs)), key=lambda token: (-probs[token], token))
    kept, before = dict[int, float](), 0.0
    for rank, token in enumerate(order):
        if rank < top_k and before <= top_p and probs[token] >= probs[order[0]] * min_p:
            kept[token] = probs[token]
        before += probs[token]
    return [kept.get(token, 0.0) / sum(kept.values()) for token in range(len(probs))]


@pytest.fixture(params=list(Form), ids=str)
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Form:
    """Run a test in both forms."""
    monkeypatch.setitem(FORMS, "cpu", request.param)
    chosen: Form = request.param
    return chosen


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("leading", [2, 8, 1024])
@pytest.mark.parametrize(
    ("top_k", "top_p", "min_p"), [(3, 1.0, 0.0), (ALL, 0.7, 0.0), (ALL, 1.0, 0.2), (6, 0.8, 0.05), (1, 1.0, 0.0)]
)
def test_rows_are_cut_as_written_out(
    monkeypatch: pytest.MonkeyPatch, leading: int, top_k: int, top_p: float, min_p: float
) -> None:
    monkeypatch.setattr(filters, "LEADING", leading)
    torch.manual_seed(0)
    logits = torch.randn(50, 40) * 2
    logits[:, 7] = logits[:, 3]  # equal tokens, on either side of some cuts
    probs = logits.softmax(-1)
    found = truncate(probs, cuts(top_k, top_p, min_p, rows=50))
    for row in range(50):
        assert found[row].tolist() == pytest.approx(written_out(probs[row].tolist(), top_k, top_p, min_p), abs=1e-6)


@pytest.mark.usefixtures("form")
def test_a_row_does_not_depend_on_its_neighbors() -> None:
    torch.manual_seed(0)
    probs = torch.randn(3, 40).softmax(-1)
    different = Cuts(
        top_ks=torch.tensor([ALL, 5, ALL]), top_ps=torch.tensor([1.0, 0.9, 0.5]), min_ps=torch.tensor([0.0, 0.0, 0.1])
    )
    whole = truncate(probs, different)
    for row in range(3):
        assert torch.equal(whole[row], truncate(probs[[row]], different.of(torch.tensor([row])))[0])
    assert torch.equal(whole[0], probs[0])


@pytest.mark.usefixtures("form")
def test_top_p_counts_the_mass_before_top_k_renormalizes_it() -> None:
    assert truncate(torch.tensor([[0.5, 0.3, 0.15, 0.05]]), cuts(2, 0.6))[0].tolist() == pytest.approx(
        [0.625, 0.375, 0, 0]
    )


@pytest.mark.usefixtures("form")
def test_greedy_rows_have_one_token() -> None:
    assert truncate(torch.tensor([[0.1, 0.45, 0.45]]), cuts(1))[0].tolist() == [0, 1, 0]


@given(data=st.data(), size=st.integers(1, 300))
def test_both_forms_cut_alike(data: st.DataObject, size: int) -> None:
    seed = data.draw(st.integers(0, 2**16))
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(4, size, generator=generator) * data.draw(st.sampled_from([0.0, 1.0, 4.0, 40.0]))
    probs = (logits * 4).round().div(4).softmax(-1)  # rounded: many are equal
    chosen = Cuts(
        top_ks=torch.tensor(data.draw(st.lists(st.integers(1, 400), min_size=4, max_size=4)), dtype=torch.int32),
        top_ps=torch.tensor(
            data.draw(st.lists(st.sampled_from([0.001, 0.3, 0.9, 0.999, 1.0]), min_size=4, max_size=4))
        ),
        min_ps=torch.tensor(data.draw(st.lists(st.sampled_from([0.0, 0.01, 0.5]), min_size=4, max_size=4))),
    )
    assert form_of(probs) is Form.FEW
    torch.testing.assert_close(threshold.truncate(probs, chosen), truncate(probs, chosen), rtol=1e-5, atol=1e-7)
