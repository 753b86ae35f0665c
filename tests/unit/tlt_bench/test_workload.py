"""What engines are asked."""

from statistics import median

from tlt_bench.workload import LONGEST_TOKENS, hard_prompts, long_tailed, mixed_prompts


def test_a_rollout_has_a_long_tail() -> None:
    lengths = sorted(long_tailed(32, seed=0))
    assert lengths[-1] == LONGEST_TOKENS
    assert 3.5 * median(lengths) < lengths[-1]
    assert sum(length > 600 for length in lengths) in (2, 3, 4)
    assert 250 < sum(lengths) / len(lengths) < 330


def test_all_rollouts_have_the_same_lengths_in_another_order() -> None:
    first, second = long_tailed(16, seed=0), long_tailed(16, seed=1)
    assert first != second
    assert sorted(first) == sorted(second)
    assert max(long_tailed(16, seed=0, longest=256)) == 256


def test_prompts_repeat_with_their_seed() -> None:
    assert hard_prompts(3, seed=1) == hard_prompts(3, seed=1) != hard_prompts(3, seed=2)
    assert len({len(prompt) for prompt in hard_prompts(8, seed=1)}) == 1, "four numbers each"
    assert len({len(prompt) for prompt in mixed_prompts(32, seed=1)}) == 3
