import pytest

from tlt_trainer.data.intake import MIN_TOKENS, take_size


@pytest.mark.parametrize(
    ("held", "drawn", "size"),
    [
        (0, 0, 1000),  # the pool lacks some
        (999, 5000, 1000),
        (1000, 0, 0),  # nothing was trained on
        (1000, MIN_TOKENS - 1, 0),  # no frame would fit
        (1000, MIN_TOKENS, MIN_TOKENS),
        (1000, 600, 600),
        (5000, 1200, 1000),  # more than a take may have
    ],
)
def test_what_was_trained_on_is_replaced_and_a_small_pool_filled(held: int, drawn: int, size: int) -> None:
    assert take_size(1000, held=held, drawn=drawn) == size
