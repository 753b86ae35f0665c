"""Keys of weight updates rise."""

import itertools
from unittest.mock import patch

from tlt_common.weights.update_key import generated_key


def test_keys_rise_when_the_clock_is_set_back() -> None:
    first = generated_key()
    with patch("tlt_common.weights.update_key.time.time_ns", return_value=0):
        keys = [first, *(generated_key() for _ in range(20))]
    assert all(earlier < later for earlier, later in itertools.pairwise(keys))
