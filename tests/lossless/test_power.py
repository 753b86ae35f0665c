"""Power of the suite: it flags wrong acceptance of several kinds at the size it runs at."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.engine import models
from tests.lossless import broken, exact, goodness, judge
from tests.lossless.cases import VOCABULARY, Size
from tests.lossless.scenes import DrawnResult
from tlt_common.domain.prompt import SamplingParams

STEPS = 3
COMPARISONS = 1000
"""More than the suite makes, so this level is at least as strict."""
LEVEL = judge.LEVEL / COMPARISONS


class Markov:
    """A target whose next token depends on the last one, and a nearly correct drafter. Starts at token 0."""

    def __init__(self, seed: int = 5) -> None:
        torch.manual_seed(seed)
        self.logits_VV = torch.randn(VOCABULARY, VOCABULARY) * 2
        self.p_VV = torch.softmax(self.logits_VV, -1)
        self.q_VV = torch.softmax(self.logits_VV + torch.randn(VOCABULARY, VOCABULARY) * 0.7, -1)

    def masses(self) -> exact.Masses:
        """Return the mass of every response of three tokens."""
        p = self.p_VV.double()
        return (p[0][:, None, None] * p[:, :, None] * p[None]).reshape(-1).numpy()

    def answers(self, samples: int, accept: Callable[..., None]) -> Any:
        """Draw a chain from the drafter, verify it, and continue with plain sampling after the last accepted token: [N,
        3]."""
        chain = [torch.zeros(samples, dtype=torch.int64)]
        for _ in range(STEPS):
            chain.append(torch.multinomial(self.q_VV[chain[-1]], 1).squeeze(1))
        candidates_BN = torch.stack(chain, 1)
        index_BN = torch.arange(candidates_BN.numel()).view(samples, -1)
        predicts, path_BN = torch.zeros(candidates_BN.numel(), dtype=torch.int64), torch.full_like(index_BN, -1)
        kept_B = torch.zeros(samples, dtype=torch.int64)
        accept(
            predicts=predicts, accept_index=path_BN, accept_token_num=kept_B, candidates=candidates_BN,
            retrive_index=index_BN, retrive_next_token=None, retrive_next_sibling=None,
            uniform_samples=torch.rand(samples, STEPS + 1), uniform_samples_for_final_sampling=torch.rand(samples),
            target_probs=self.p_VV[candidates_BN], draft_probs=self.q_VV[candidates_BN[:, :-1]],
        )  # fmt: skip
        tokens_BN = predicts.view(samples, -1)[:, :STEPS]
        for place in range(1, STEPS):
            plain_B = torch.multinomial(self.p_VV[tokens_BN[:, place - 1]], 1).squeeze(1)
            tokens_BN[:, place] = torch.where(kept_B >= place, tokens_BN[:, place], plain_B)
        return tokens_BN.numpy()

    def p_value(self, samples: int, accept: Callable[..., None]) -> float:
        return goodness.fit(goodness.count(self.answers(samples, accept), VOCABULARY), self.masses()).p_value


@pytest.fixture(scope="module")
def samples(size: Size) -> int:
    """Number of samples the suite draws for one arm."""
    return size.draws * len(size.settings)


def test_right_acceptance_passes(samples: int) -> None:
    assert Markov().p_value(samples, broken.correct) > LEVEL


@pytest.mark.parametrize(
    "accept", [broken.likely, broken.lenient, broken.residual_of_next_position, broken.no_residual]
)
def test_wrong_acceptance_is_flagged(samples: int, accept: Callable[..., None]) -> None:
    assert Markov().p_value(samples, accept) < LEVEL


def test_filters_one_after_the_other_are_flagged(size: Size) -> None:
    """One setting's draws suffice."""
    params = SamplingParams(temperature=1.5, top_k=6, top_p=0.8)
    logits = Markov().logits_VV[:1].numpy()
    masses = broken.filtered_twice(logits, params.temperature, params.top_k, params.top_p)[0]
    right = exact.filtered(logits, params)[0]
    chance = np.random.default_rng(3)
    assert goodness.fit(chance.multinomial(size.draws, right).astype(np.int64), right).p_value > LEVEL
    assert goodness.fit(chance.multinomial(size.draws, masses).astype(np.int64), right).p_value < LEVEL


@pytest.mark.parametrize("siblings", [(4, 9), (4, 9, 4, 4)])
def test_a_sibling_that_counts_again_is_flagged(size: Size, siblings: tuple[int, ...]) -> None:
    torch.manual_seed(2)
    p_V = Markov().p_VV[0]
    chosen = broken.first_of_siblings(
        p_V.expand(size.draws, -1), siblings, torch.rand(size.draws), torch.rand(size.draws)
    )
    fits = goodness.fit(goodness.count(chosen.numpy()[:, None], VOCABULARY), p_V.double().numpy())
    assert (fits.p_value < LEVEL) == (len(set(siblings)) < len(siblings))


@pytest.mark.engine
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("scene", ["broken", "unpatched"])
def test_an_engine_with_wrong_acceptance_is_flagged(
    host: Callable[..., Any], size: Size, broken_plugin: str, scene: str
) -> None:
    """`broken` accepts drafts of p > 0.3; `unpatched` verifies as SGLang does on a CPU."""
    if scene not in size.wrong_engines:
        pytest.skip("this engine runs at another size only")
    result: DrawnResult = host(scene, **({"PYTHONPATH": broken_plugin} if scene == "broken" else {}))
    masses = judge.expected(models.load(result.target), result.drawn)
    fits = judge.fits(result.drawn, "2-4", masses)
    assert goodness.combined(list(fits.values())).p_value < LEVEL
    for setting, fit in fits.items():  # small p values of one setting are simulated, and no finer than LEVEL
        assert fit.p_value < judge.LEVEL, setting
