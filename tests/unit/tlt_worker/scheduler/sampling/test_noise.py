"""The noise of seeds, against SGLang's formula in float64."""

import torch

from tlt_worker.scheduler.sampling.noise import MAX_HASH, NEAR, exponentials


def in_float64(hashed: torch.Tensor) -> torch.Tensor:
    """SGLang's: the largest hash gets the noise of its neighbor."""
    return -(hashed.double() / MAX_HASH).log().clamp(min=torch.finfo(torch.float64).min, max=-(2.0**-32))


def hashes() -> torch.Tensor:
    some = torch.randint(0, MAX_HASH, (200_000,), generator=torch.Generator().manual_seed(0))
    ends = torch.arange(1, 5000)
    at = torch.tensor([MAX_HASH - NEAR, 2**31, int(2**31 * 1.4142135), 3 * 2**30])
    return torch.cat([some, ends, MAX_HASH - ends, *(at + shift for shift in (-1, 0, 1))])


def test_it_is_exact_to_2_to_the_minus_20() -> None:
    expected = in_float64(hashes())
    off = (exponentials(hashes()).double() - expected).abs() / expected
    assert float(off.max()) < 2.0**-20


def test_the_ends_are_finite() -> None:
    ends = exponentials(torch.tensor([0, MAX_HASH, MAX_HASH - 1]))
    assert ends.isfinite().all()
    assert ends[1] == ends[2] == 2.0**-32
    assert ends[0] > 22


def test_it_draws_what_float64_draws() -> None:
    hashed = torch.randint(0, MAX_HASH, (500, 2000), generator=torch.Generator().manual_seed(1))
    probs = torch.randn(500, 2000, generator=torch.Generator().manual_seed(2)).mul(3).softmax(-1)
    gumbel = -in_float64(hashed).log()
    assert torch.equal((probs / exponentials(hashed)).argmax(-1), (probs.double().log() + gumbel).argmax(-1))
