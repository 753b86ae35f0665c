"""Training runs of the own loop: rollout and update in turn, or at the same time."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from statistics import mean

from countdown.coordinator import fleet_at, lend
from countdown.curriculum import Curriculum
from countdown.record import Side
from countdown.task import Problem
from tlt_bench.curves.curve import Curve
from tlt_bench.curves.episode import CurveEpisode, Player
from tlt_bench.curves.kind import Kind
from tlt_bench.curves.learner import CurveLearner
from tlt_common.client import Client
from tlt_common.domain.fleet import WorkerState
from tlt_common.errors import TltError

MAX_STALENESS = 1
"""Versions by which the first token of a response may be behind, in asynchronous training."""
TURNS = 2
"""Turns of an episode with a tool, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Size of a run."""

    steps: int = 8
    prompts: int = 8
    samples: int = 4
    cap_tokens: int = 384


SHORT = Settings(steps=2, prompts=3, cap_tokens=96)

Group = list[CurveEpisode]
"""The episodes of one prompt."""


class Run:
    """
    One training run.

    Args:
        kind: Any but GRPO, which the demo's trainer runs.
        side: With speculation and lending, or without.
        seed: Determines the prompts.
        say: Called with each step's progress.
    """

    def __init__(
        self, kind: Kind, side: Side, seed: int, settings: Settings, client: Client, say: Callable[[str], None]
    ) -> None:
        self._kind, self._side, self._seed, self._settings, self._say = kind, side, seed, settings, say
        self._client = client
        self._learner = CurveLearner(kind, samples=settings.samples)
        self._player = Player(
            client=client,
            cap_tokens=settings.cap_tokens,
            is_on=side == "on",
            max_staleness=MAX_STALENESS if kind is Kind.ASYNC else None,
        )
        self._curriculum = Curriculum(hold_steps=1, shift_steps=1)
        self._version = 0
        self._played = self._cut = self._staleness = 0
        self._rewards: list[float] = []
        self._accept_length = 0.0

    async def train(self, coordinator: str) -> Curve:
        """Train; return the curve."""
        await lend(coordinator, enabled=self._side == "on")
        self._version = (await self._client.info()).policy_version
        await self._publish()
        before = await _worker_seconds(coordinator)
        await (self._overlapped() if self._kind is Kind.ASYNC else self._in_turn())
        after = await _worker_seconds(coordinator)
        spent = {state: seconds - before.get(state, 0.0) for state, seconds in after.items()}
        return Curve(
            seed=self._seed,
            side=self._side,
            rewards=tuple(self._rewards),
            accept_length=self._accept_length,
            max_staleness=self._staleness,
            cut_share=self._cut / self._played,
            lent_share=spent.get(WorkerState.TRAINING, 0.0) / sum(spent.values()),
        )

    async def _in_turn(self) -> None:
        for step in range(self._settings.steps):
            await self._learn(await asyncio.gather(*map(self._group, self._problems(step))))

    async def _overlapped(self) -> None:
        """Keep two steps' prompts in flight; learn from what finishes first, unless it waited too long."""
        finished: asyncio.Queue[Group] = asyncio.Queue()
        room = asyncio.Semaphore(2 * self._settings.prompts)

        async def play(problem: Problem) -> None:
            await finished.put(await self._group(problem))
            room.release()

        async def feed() -> None:
            async with asyncio.TaskGroup() as playing:
                for step in count():
                    for problem in self._problems(step):
                        await room.acquire()
                        playing.create_task(play(problem))

        async with asyncio.TaskGroup() as tasks:
            feeding = tasks.create_task(feed())
            for _ in range(self._settings.steps):
                groups: list[Group] = []
                while len(groups) < self._settings.prompts:
                    groups += self._fresh(await finished.get())
                await self._learn(groups)
            feeding.cancel()

    def _fresh(self, group: Group) -> list[Group]:
        is_fresh = all(self._version - episode.began_version <= MAX_STALENESS for episode in group)
        self._cut += 0 if is_fresh else len(group)
        return [group] if is_fresh else []

    async def _group(self, problem: Problem) -> Group:
        return await asyncio.gather(*(self._episode(problem) for _ in range(self._settings.samples)))

    async def _episode(self, problem: Problem) -> CurveEpisode:
        """Play an episode, again if it became too stale."""
        while True:
            self._played += 1
            episode = await self._player.play(problem, turns=TURNS if self._kind is Kind.TOOLS else 1)
            if episode is not None:
                return episode
            self._cut += 1

    async def _learn(self, groups: list[Group]) -> None:
        episodes = [episode for group in groups for episode in group]
        began_s = time.perf_counter()
        self._staleness = max(self._staleness, *(self._version - one.began_version for one in episodes))
        await asyncio.to_thread(self._learner.learn, episodes)
        await self._publish()
        self._rewards.append(mean(episode.reward for episode in episodes))
        self._accept_length = sum(one.sampled_tokens for one in episodes) / sum(one.rounds for one in episodes)
        self._say(
            f"step {len(self._rewards)}: reward {self._rewards[-1]:.3f}, accept length {self._accept_length:.2f}, "
            f"learned in {time.perf_counter() - began_s:.1f} s"
        )

    async def _publish(self) -> None:
        self._version += 1
        await self._client.publish_weights(self._version, await asyncio.to_thread(self._learner.served))

    def _problems(self, step: int) -> list[Problem]:
        return self._curriculum.problems(step, count=self._settings.prompts, seed=self._seed)


async def _worker_seconds(coordinator: str) -> dict[WorkerState, float]:
    fleet = await fleet_at(coordinator)
    found: dict[WorkerState, float] = {}
    for account in fleet.workers:
        for state, seconds in account.seconds.items():
            found[state] = found.get(state, 0.0) + seconds
    if not found:
        raise TltError("the coordinator knows no worker")
    return found
