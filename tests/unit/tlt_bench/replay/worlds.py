"""Made-up traces whose best arms are known."""

import math
from collections.abc import Mapping
from random import Random

from tlt_bench.replay.world import World
from tlt_common.bandit.round_trace import TracedRound
from tlt_common.domain.arm import OFF, Arm, chain
from tlt_common.domain.ids import DrafterVersion

SHORT, LONG = chain(3), chain(7)
EVEN: Mapping[Arm, float] = {OFF: 1.0, SHORT: 1.0, LONG: 1.0}


def made_world(
    *,
    batches: tuple[int, ...] = (16, 8, 4, 2, 1),
    rounds_each: int = 120,
    time_of: Mapping[int, Mapping[Arm, float]] | None = None,
    kept: float = 0.8,
    drafters: tuple[int, ...] = (1,),
    seed: int = 0,
) -> World:
    """
    Rounds of random arms, `rounds_each` at each batch size, once per drafter.

    `time_of[batch][arm]` is the time of a round; `kept` the chance of each draft token, as for independent tokens. For
    every drafter after the first that chance is halved.
    """
    random, rounds, now_s = Random(seed), [], 0.0
    for count, drafter in enumerate(drafters):
        chance = kept / 2**count
        for batch in batches:
            for _ in range(rounds_each):
                arm = random.choice((OFF, SHORT, LONG))
                elapsed_s = (time_of or {}).get(batch, EVEN)[arm] * random.uniform(0.9, 1.1) * 0.01
                now_s += elapsed_s
                accepted = tuple(_run(random, arm.steps, chance) for _ in range(batch))
                rounds.append(
                    TracedRound(
                        at_s=now_s,
                        arm=arm,
                        accepted=accepted,
                        elapsed_s=elapsed_s,
                        drafted=arm.steps * batch,
                        drafter=DrafterVersion(drafter),
                    )
                )
    return World(rounds)


def _run(random: Random, steps: int, chance: float) -> int:
    return min(steps, int(math.log(1.0 - random.random()) / math.log(chance)))
