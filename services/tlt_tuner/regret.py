"""Cost of exploration: tokens that the best arm would have produced in addition in the same time. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from tlt_common.domain.arm import ArmWindow
from tlt_common.domain.tuner import Posterior


def regret_tokens(known: Posterior, windows: Iterable[ArmWindow]) -> Mapping[int, float]:
    """
    Return the estimated regret, in tokens, per batch-size group. `known` must include `windows`.

    An arm is judged by its pooled reward rather than by the window's: by chance, the best arm would fall short of its
    own reward half of the time.
    """
    rewards = {(arm.group, arm.arm): arm.median_reward for arm in known.arms}
    best: dict[int, float] = defaultdict(float)
    for (group, _), reward in rewards.items():
        best[group] = max(best[group], reward)
    lost: dict[int, float] = defaultdict(float)
    for window in windows:
        lost[window.group] += (best[window.group] - rewards[window.group, window.arm]) * window.elapsed_s
    return lost
