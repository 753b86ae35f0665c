"""What exploring costs: the tokens that the best arm would have produced more in the same time. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from tlt_common.domain.strategy import ArmWindow
from tlt_common.domain.tuner import Posterior


def regret_tokens(known: Posterior, windows: Iterable[ArmWindow]) -> Mapping[int, float]:
    """
    Estimate it per batch-size group, from what is known now, these windows included.

    An arm is judged by its pooled reward and not by that of the window: chance would make the best arm look worse
    than itself half of the time.
    """
    rewards = {(arm.group, arm.arm): arm.median_reward for arm in known.arms}
    best: dict[int, float] = defaultdict(float)
    for (group, _), reward in rewards.items():
        best[group] = max(best[group], reward)
    lost: dict[int, float] = defaultdict(float)
    for window in windows:
        lost[window.group] += (best[window.group] - rewards[window.group, window.arm]) * window.elapsed_s
    return lost
