import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.fleet import WorkerState
from tlt_worker.activity import Activity, Facts, Tenancy, state_of

facts = st.builds(
    Facts,
    running=st.integers(0, 3),
    updating=st.booleans(),
    swapping=st.booleans(),
    released=st.booleans(),
    tenancy=st.sampled_from(Tenancy),
)


@pytest.mark.parametrize(
    ("given_facts", "state"),
    [
        (Facts(), WorkerState.IDLE),
        (Facts(running=1), WorkerState.ROLLOUT),
        (Facts(tenancy=Tenancy.ENTERING), WorkerState.SWITCHING),
        (Facts(tenancy=Tenancy.TRAINING), WorkerState.TRAINING),
        (Facts(tenancy=Tenancy.LEAVING, running=4), WorkerState.SWITCHING),
        (Facts(swapping=True), WorkerState.SWITCHING),
        (Facts(swapping=True, running=1), WorkerState.ROLLOUT),
        (Facts(swapping=True, tenancy=Tenancy.TRAINING), WorkerState.TRAINING),
        (Facts(updating=True, running=1), WorkerState.UPDATING),
        (Facts(released=True), WorkerState.TRAINER),
        (Facts(released=True, updating=True), WorkerState.UPDATING),
        (Facts(released=True, tenancy=Tenancy.LEAVING), WorkerState.SWITCHING),
    ],
)
def test_each_set_of_facts_has_one_state(given_facts: Facts, state: WorkerState) -> None:
    assert state_of(given_facts) is state


@given(facts)
def test_a_device_with_requests_is_never_idle_nor_training(given_facts: Facts) -> None:
    if given_facts.running:
        assert state_of(given_facts) not in {WorkerState.IDLE, WorkerState.TRAINING}


def test_transitions_are_told_once_each_and_in_order() -> None:
    activity = Activity()
    seen: list[tuple[WorkerState, WorkerState]] = []
    activity.on_transition(lambda old, new: seen.append((old, new)))
    activity.set_tenancy(Tenancy.TRAINING)
    with activity.request():
        activity.set_tenancy(Tenancy.LEAVING)
        with activity.request():
            activity.set_tenancy(Tenancy.NONE)
    assert [new for _, new in seen] == [
        WorkerState.TRAINING,
        WorkerState.ROLLOUT,
        WorkerState.SWITCHING,
        WorkerState.ROLLOUT,
        WorkerState.IDLE,
    ]
    assert all(earlier[1] is later[0] for earlier, later in itertools.pairwise(seen))


def test_an_update_that_fails_ends_the_updating_state() -> None:
    activity = Activity()
    with pytest.raises(OSError, match="disk"), activity.update():
        raise OSError("disk")
    assert activity.state is WorkerState.IDLE
