"""What workers tell gateways of their rounds arrives as it was sent."""

from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.arm import ArmWindow
from tlt_common.domain.arm.rounds import NO_ROUNDS, WorkedRounds
from tlt_common.domain.fleet import WatchReport, WorkerInfo
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, WorkerId
from tlt_common.wire import worker as wire
from tlt_common.wire.watch import report_from_pb, report_to_pb

counts = st.integers(0, 2**40)
windows = st.builds(
    ArmWindow,
    arm=st.sampled_from(("off", "chain-7")),
    group=st.sampled_from((1, 2, 64)),
    rounds=counts,
    accepted_tokens=counts,
    produced_tokens=counts,
    elapsed_s=st.floats(0.0, 1e6),
    median_reward=st.just(0.0),
    kv_tokens=counts,
)
rounds = st.builds(
    WorkedRounds,
    serial=st.integers(1, 2**40),
    arms=st.lists(windows, max_size=4).map(tuple),
    prefilled_tokens=counts,
    prefill_s=st.floats(0.0, 1e6),
)


@given(st.just(NO_ROUNDS) | rounds, counts)
def test_rounds_and_the_size_of_the_cache_arrive(worked: WorkedRounds, kv_room: int) -> None:
    info = WorkerInfo(
        worker_id=WorkerId("w"),
        model="m",
        vocab_size=100,
        context_length=64,
        max_running=8,
        policy_version=PolicyVersion(0),
        drafter_version=DrafterVersion(0),
        running=0,
        device="cpu",
        kv_room=kv_room,
    )
    report = WatchReport(info=info, slots=4, rounds=worked)
    assert report_from_pb(wire.pb.WatchResponse.FromString(report_to_pb(report).SerializeToString())) == report
