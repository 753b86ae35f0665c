from collections.abc import Mapping, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.ids import PolicyVersion, WorkerId
from tlt_gateway.workers.routing import NOTHING, Candidate, RoutingTable

SPILL = 0.25


def table(fleet: Sequence[Candidate], *, spill_load: float = SPILL, pack: int = 0) -> RoutingTable:
    made = RoutingTable(spill_load=spill_load)
    made.pack = pack
    for candidate in fleet:
        made.put(candidate)
    return made


def choose(
    fleet: Sequence[Candidate],
    *,
    version: PolicyVersion | None = None,
    spill_load: float,
    cached: Mapping[WorkerId, int] = NOTHING,
    affinity_tokens: int = 1,
    pack: int = 0,
) -> Candidate | None:
    """Return the choice of a table that has never seen anything else."""
    made = table(fleet, spill_load=spill_load, pack=pack)
    return made.choose(version=version, cached=cached, affinity_tokens=affinity_tokens)


@st.composite
def fleets(draw: st.DrawFn) -> list[Candidate]:
    sizes = draw(st.lists(st.integers(1, 20), min_size=1, max_size=6))
    return [
        Candidate(
            worker_id=WorkerId(f"w{index}"),
            policy_version=PolicyVersion(draw(st.integers(0, 1))),
            max_running=size,
            slots=draw(st.integers(0, size)),
            assigned=draw(st.integers(0, size)),
            foreign=draw(st.integers(0, 5)),
            training=draw(st.booleans()),
        )
        for index, size in enumerate(sizes)
    ]


def one(name: str, *, assigned: int = 0, max_running: int = 8, training: bool = False, version: int = 0) -> Candidate:
    return Candidate(
        worker_id=WorkerId(name),
        policy_version=PolicyVersion(version),
        max_running=max_running,
        slots=max_running,
        assigned=assigned,
        training=training,
    )


def fill(fleet: list[Candidate], requests: int) -> dict[str, int]:
    assigned = {c.worker_id: c.assigned for c in fleet}
    for _ in range(requests):
        now = [
            one(c.worker_id, assigned=assigned[c.worker_id], max_running=c.max_running, training=c.training)
            for c in fleet
        ]
        if chosen := choose(now, spill_load=SPILL):
            assigned[chosen.worker_id] += 1
    return {str(worker_id): count for worker_id, count in assigned.items()}


@given(fleets())
def test_a_request_waits_only_when_no_worker_has_free_slot(fleet: list[Candidate]) -> None:
    chosen = choose(fleet, spill_load=SPILL)
    assert (chosen is None) == all(c.assigned >= c.slots for c in fleet)
    assert chosen is None or chosen.has_free_slot


@given(fleets(), st.integers(0, 2))
def test_only_workers_at_the_asked_version_are_chosen(fleet: list[Candidate], version: int) -> None:
    chosen = choose(fleet, version=PolicyVersion(version), spill_load=SPILL)
    assert chosen is None or chosen.policy_version == version


@given(fleets())
def test_nobody_less_loaded_of_the_same_kind_is_passed_over(fleet: list[Candidate]) -> None:
    chosen = choose(fleet, spill_load=SPILL)
    if chosen is not None:
        same = [c for c in fleet if c.has_free_slot and c.training == chosen.training]
        assert chosen.load == min(c.load for c in same)


@given(fleets())
def test_training_goes_on_while_a_worker_that_does_not_train_is_lightly_loaded(fleet: list[Candidate]) -> None:
    chosen = choose(fleet, spill_load=SPILL)
    if any(c.has_free_slot and not c.training and c.load <= SPILL for c in fleet):
        assert chosen is not None
        assert not chosen.training


@given(st.lists(st.integers(1, 20), min_size=1, max_size=6), st.integers(0, 60))
def test_a_batch_is_spread_evenly_over_slots(sizes: list[int], requests: int) -> None:
    assigned = fill([one(f"w{i}", max_running=size) for i, size in enumerate(sizes)], requests)
    assert sum(assigned.values()) == min(requests, sum(sizes))
    shares = [(assigned[f"w{i}"], size) for i, size in enumerate(sizes)]
    lightest = min((count + 1) / size for count, size in shares)
    assert all(count / size <= lightest + 1e-9 for count, size in shares)


def test_a_batch_takes_workers_from_training_and_ends_up_even() -> None:
    fleet = [one("serves", max_running=16), one("trains", max_running=16, training=True)]
    assert fill(fleet, 16) == {"serves": 8, "trains": 8}


def test_the_tail_leaves_training_alone() -> None:
    fleet = [one("serves", max_running=16), one("trains", max_running=16, training=True)]
    assert fill(fleet, 4) == {"serves": 4, "trains": 0}


def test_a_training_worker_is_better_than_none() -> None:
    fleet = [one("serves", assigned=8), one("trains", training=True)]
    chosen = choose(fleet, spill_load=1.0)
    assert chosen is not None
    assert chosen.worker_id == "trains"


def test_requests_of_other_gateways_tilt_the_choice_but_close_no_worker() -> None:
    busy = replace(one("a", max_running=4), foreign=9)
    assert choose([busy, one("b")], spill_load=SPILL) == one("b")
    assert choose([busy], spill_load=SPILL) == busy


def test_a_request_goes_where_its_prefix_is_cached_while_loads_are_close() -> None:
    home = {WorkerId("b"): 512}

    def chosen(on_b: int) -> str:
        fleet = [one("a", assigned=1), one("b", assigned=on_b)]
        found = choose(fleet, spill_load=SPILL, cached=home, affinity_tokens=256)
        assert found is not None
        return found.worker_id

    assert [chosen(on_b) for on_b in (0, 1, 2, 3, 4)] == ["b", "b", "b", "b", "a"]


def test_of_two_workers_the_one_with_more_cached_is_chosen() -> None:
    cached = {WorkerId("a"): 100, WorkerId("b"): 900}
    assert choose([one("a"), one("b", assigned=1)], spill_load=SPILL, cached=cached, affinity_tokens=256) == one(
        "b", assigned=1
    )
    assert choose([one("a"), one("b", assigned=8)], spill_load=SPILL, cached=cached, affinity_tokens=256) == one("a")


def test_a_cached_prefix_wakes_no_trainer() -> None:
    home, away = {WorkerId("b"): 100_000}, one("b", training=True)
    for spill in (0.0, SPILL):
        assert choose([one("a", assigned=1), away], spill_load=spill, cached=home) in [one("a", assigned=1), away]
    assert choose([one("a"), away], spill_load=SPILL, cached=home) == one("a")


@given(fleets(), st.dictionaries(st.sampled_from([WorkerId(f"w{i}") for i in range(6)]), st.integers(1, 4000)))
def test_what_is_cached_neither_delays_a_request_nor_outweighs_many(
    fleet: list[Candidate], cached: dict[WorkerId, int]
) -> None:
    least = choose(fleet, spill_load=SPILL)
    chosen = choose(fleet, spill_load=SPILL, cached=cached, affinity_tokens=256)
    assert (chosen is None) == (least is None)
    if chosen is not None and least is not None and chosen != least:
        assert chosen.has_free_slot
        assert chosen.worker_id in cached
        assert chosen.training <= least.training
        assert (chosen.load - least.load) * chosen.max_running <= cached[chosen.worker_id] / 256 + 1e-9


def test_up_to_a_number_of_requests_a_worker_gets_all_before_the_next_one_does() -> None:
    fleet = [one("w0"), one("w1", assigned=1), one("w2", assigned=3), one("w3", training=True)]
    assert [
        chosen.worker_id if (chosen := choose(fleet, spill_load=SPILL, pack=pack)) else "" for pack in (0, 2, 4)
    ] == [
        "w0",
        "w1",
        "w2",
    ]


@given(fleets(), st.integers(0, 8))
def test_packing_takes_no_worker_from_training_and_fills_none_beyond_its_number(
    fleet: list[Candidate], pack: int
) -> None:
    packed, spread = choose(fleet, spill_load=SPILL, pack=pack), choose(fleet, spill_load=SPILL)
    if packed != spread:
        assert packed is not None
        assert packed.running < pack
        assert not packed.training


def by_its_description(
    fleet: Sequence[Candidate], version: PolicyVersion | None, pack: int, cached: Mapping[WorkerId, int]
) -> Candidate | None:
    """The choice in as many passes over the fleet as its description has sentences."""
    suitable = [c for c in fleet if c.has_free_slot and version in {None, c.policy_version}]
    serving = [c for c in suitable if not c.training and c.load <= SPILL]
    if begun := [c for c in suitable if 0 < c.running < pack and not c.training]:
        least = min(begun, key=lambda c: (-c.running, c.worker_id))
    elif suitable:
        least = min(serving or suitable, key=lambda c: (c.load, c.training, c.worker_id))
    else:
        return None
    holders = [
        c
        for c in suitable
        if c.worker_id in cached
        and c.training <= least.training
        and (c.load - least.load) * c.max_running * 256 <= cached[c.worker_id]
    ]
    return max(holders, key=lambda c: (cached[c.worker_id], -c.load, c.worker_id), default=least)


versions = st.none() | st.integers(0, 1).map(PolicyVersion)
caches = st.dictionaries(st.sampled_from([WorkerId(f"w{i}") for i in range(6)]), st.integers(1, 4000))


@given(fleets(), versions, st.integers(0, 8), caches)
def test_a_choice_is_what_its_description_says(
    fleet: list[Candidate], version: PolicyVersion | None, pack: int, cached: dict[WorkerId, int]
) -> None:
    found = choose(fleet, version=version, spill_load=SPILL, pack=pack, cached=cached, affinity_tokens=256)
    assert found == by_its_description(fleet, version, pack, cached)


@given(st.lists(fleets() | st.integers(0, 5) | st.integers(6, 9), max_size=12), versions, caches)
def test_a_table_with_a_past_chooses_as_a_new_one(
    changes: list[list[Candidate] | int], version: PolicyVersion | None, cached: dict[WorkerId, int]
) -> None:
    kept, now, pack = table([]), dict[WorkerId, Candidate](), 0
    for change in changes:
        if isinstance(change, list):
            for one in change:
                kept.put(one)
                now[one.worker_id] = one
        elif change <= 5:
            kept.drop(WorkerId(f"w{change}"))
            now.pop(WorkerId(f"w{change}"), None)
        else:
            kept.pack = pack = change - 6
        fleet = list(now.values())
        found = kept.choose(version=version, cached=cached, affinity_tokens=256)
        assert found == by_its_description(fleet, version, pack, cached)
        assert kept.free == sum(c.free for c in fleet)
        assert kept.versions == {c.policy_version for c in fleet}
        assert len(kept) == len(fleet)


def test_a_worker_that_changes_for_ever_takes_no_more_room() -> None:
    kept = table([one("a"), one("b")])
    for number in range(1000):
        kept.put(one("a", assigned=number % 8))
    (orders,) = kept._orders.values()
    assert len(orders.least._heap) < 20
