"""Who leads, whatever clocks, networks and crashes do."""

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tlt_coordinator.config import KubernetesSettings
from tlt_coordinator.kube.api import LeaseObject
from tlt_coordinator.kube.election import NEVER, LeaderElection

SETTINGS = KubernetesSettings(namespace="rl", pod="p", lease_duration_s=15, renew_deadline_s=10, retry_period_s=2)
WALL = datetime(2026, 1, 1, tzinfo=UTC)


def taken(lease: LeaseObject | None, version: int) -> LeaseObject:
    assert lease is not None
    return replace(lease, version=str(version))


def leader(name: str = "a", at_s: float = 0.0) -> tuple[LeaderElection, LeaseObject]:
    candidate = LeaderElection(name, SETTINGS)
    candidate.observe(None, at_s)
    lease = taken(candidate.bid(at_s, WALL), 1)
    candidate.won(lease, at_s)
    return candidate, lease


def test_whoever_makes_the_lease_leads_until_the_deadline_after_it_asked() -> None:
    candidate, lease = leader(at_s=100.0)
    assert candidate.leads_until_s == 110.0
    assert (lease.holder, lease.duration_s, lease.transitions) == ("a", 15, 0)


def test_another_waits_the_promised_time_from_when_it_saw_a_change() -> None:
    _, lease = leader()
    other = LeaderElection("b", SETTINGS)
    other.observe(lease, 1000.0)
    assert other.bid(1014.9, WALL) is None
    other.observe(replace(lease, version="2"), 1014.9)
    assert other.bid(1029.8, WALL) is None
    bid = other.bid(1029.9, WALL)
    assert bid is not None
    assert (bid.holder, bid.transitions, bid.version, bid.acquired_at) == ("b", 1, "2", WALL)


def test_the_promise_counted_is_that_of_the_holder() -> None:
    _, lease = leader()
    other = LeaderElection("b", SETTINGS)
    other.observe(replace(lease, duration_s=60), 0.0)
    assert other.bid(59.0, WALL) is None
    assert other.bid(60.0, WALL) is not None


def test_a_lease_that_was_given_up_is_free_at_once() -> None:
    first, _ = leader()
    given_up = first.resigned(WALL)
    assert first.leads_until_s == NEVER
    other = LeaderElection("b", SETTINGS)
    other.observe(taken(given_up, 2), 0.0)
    assert other.bid(0.0, WALL) is not None


def test_a_replica_that_does_not_hold_the_lease_has_none_to_give_up() -> None:
    _, lease = leader()
    other = LeaderElection("b", SETTINGS)
    other.observe(lease, 0.0)
    assert other.resigned(WALL) is None


def test_a_leader_that_sees_another_holder_stops_at_once() -> None:
    first, lease = leader()
    first.observe(replace(lease, holder="b", version="2"), 1.0)
    assert first.leads_until_s == NEVER


def test_a_lease_that_was_deleted_is_made_again_by_its_holder_and_by_others_only_after_the_promise() -> None:
    first, lease = leader()
    other = LeaderElection("b", SETTINGS)
    other.observe(lease, 0.0)
    for candidate in (first, other):
        candidate.observe(None, 5.0)
    assert other.bid(14.0, WALL) is None
    again = first.bid(5.0, WALL)
    assert again is not None
    assert (again.version, again.holder, again.transitions) == ("", "a", 0)


@dataclass
class Process:
    """One replica of the simulation, with a clock of its own."""

    name: str
    offset_s: float
    pace: float
    candidate: LeaderElection
    alive: bool = True

    def clock(self, now_s: float) -> float:
        return self.offset_s + self.pace * now_s

    def leads(self, now_s: float) -> bool:
        return self.alive and self.clock(now_s) < self.candidate.leads_until_s


@dataclass
class World:
    """Replicas, one server, and messages that take their time or get lost."""

    chance: random.Random
    kind: type[LeaderElection] = LeaderElection
    now_s: float = 0.0
    lease: LeaseObject | None = None
    queue: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    terms: set[str] = field(default_factory=set)

    def later(self, delay_s: float, do: Callable[[], None]) -> None:
        heapq.heappush(self.queue, (self.now_s + delay_s, next(self.numbers), do))

    def delay_s(self) -> float:
        return self.chance.choice([0.01, 0.1, 1.0, 5.0, 12.0, 30.0]) * self.chance.random()

    def lost(self) -> bool:
        return self.chance.random() < 0.1

    def start(self) -> None:
        name = f"p{next(self.numbers)}"
        process = Process(
            name, self.chance.uniform(-1e6, 1e6), self.chance.uniform(0.85, 1.15), self.kind(name, SETTINGS)
        )
        self.processes.append(process)
        self.later(self.chance.uniform(0, 5), lambda: self.look(process))
        if self.chance.random() < 0.7:
            self.later(self.chance.uniform(0, 120), lambda: self.crash(process))

    def crash(self, process: Process) -> None:
        process.alive = False
        self.start()

    def look(self, process: Process) -> None:
        """Read, and when the answer is there bid, and so on, every two seconds or so."""
        if not process.alive:
            return
        self.later(2.0 * process.pace + self.delay_s() / 10, lambda: self.look(process))

        def read() -> None:
            seen = self.lease
            if not self.lost():
                self.later(self.delay_s(), lambda: self.bid(process, seen))

        if not self.lost():
            self.later(self.delay_s(), read)

    def bid(self, process: Process, seen: LeaseObject | None) -> None:
        if not process.alive:
            return
        process.candidate.observe(seen, process.clock(self.now_s))
        sent_at_s = process.clock(self.now_s)
        bid = process.candidate.bid(sent_at_s, WALL)
        if bid is None or self.lost():
            return

        def write() -> None:
            if (self.lease.version if self.lease else "") != bid.version:
                return
            kept = self.lease = replace(bid, version=str(next(self.numbers)))
            if not self.lost():
                self.later(self.delay_s(), lambda: process.candidate.won(kept, sent_at_s))

        self.later(self.delay_s(), write)

    def run(self, until_s: float) -> None:
        while self.queue and self.now_s < until_s:
            self.now_s, _, do = heapq.heappop(self.queue)
            do()
            leaders = [process.name for process in self.processes if process.leads(self.now_s)]
            self.terms.update(leaders)
            assert len(leaders) <= 1, f"{leaders} lead at once at {self.now_s:.1f} s"


@given(st.integers(0, 2**32), st.integers(2, 4))
@settings(max_examples=150, deadline=None)
def test_two_replicas_never_lead_at_once(seed: int, replicas: int) -> None:
    world = World(random.Random(seed))
    for _ in range(replicas):
        world.start()
    world.run(600.0)


def test_the_simulated_worlds_see_leaders_come_and_go() -> None:
    worlds = [World(random.Random(seed)) for seed in range(10)]
    for world in worlds:
        world.start()
        world.start()
        world.run(600.0)
    assert sum(len(world.terms) for world in worlds) > 20


class Hasty(LeaderElection):
    """Believes that it leads for longer than it promised."""

    def won(self, lease: LeaseObject, sent_at_s: float) -> None:
        super().won(lease, sent_at_s + 60.0)


def test_the_simulation_finds_two_leaders_where_the_rules_are_broken() -> None:
    def run_some() -> None:
        for seed in range(50):
            world = World(random.Random(seed), Hasty)
            world.start()
            world.start()
            world.run(600.0)

    with pytest.raises(AssertionError, match="lead at once"):
        run_some()
