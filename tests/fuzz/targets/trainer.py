"""The spot trainer: its service, its checkpoints, and the policy that it reads."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.fuzz import json_texts, safetensors, tiny_policy
from tests.fuzz.files import accepted_or_refused, file_target
from tests.fuzz.host import Announce
from tests.fuzz.service import service_targets
from tests.fuzz.target import Subject, Target
from tlt_common.errors import TltError, WeightsError
from tlt_common.wire import trainer as wire
from tlt_trainer.config import TrainerConfig

_COUNTERS = {"steps": 3, "tokens": 100, "base_version": 1, "base_steps": 1, "base_tokens": 50}
_POLICY = "policy"


async def _serve(announce: Announce, directory: Path) -> None:
    from tlt_trainer.process import trainer_service

    tiny_policy.write(directory / _POLICY)
    config = TrainerConfig(
        socket=directory / "trainer.sock",
        model=directory / _POLICY,
        drafter_dir=str(directory / "drafters"),
        checkpoint_dir=str(directory / "checkpoints"),
        device="cpu",
    )
    async with trainer_service(config):
        announce(f"unix:{config.socket}")
        await asyncio.Event().wait()


@contextmanager
def _checkpoints(part: str, directory: Path) -> Iterator[Subject]:
    """Damage one file of a snapshot, and continue from it if it is accepted."""
    import torch

    from tlt_trainer.drafter.shared_weights import read_format
    from tlt_trainer.learner import Learner
    from tlt_trainer.store.checkpoint_files import COUNTERS_FILE, STATE_FILE, from_files, shapes_of, to_files

    tiny_policy.write(directory)
    form, cpu = read_format(directory), torch.device("cpu")
    files = to_files(Learner(form, cpu).snapshot())
    state = files[STATE_FILE]
    header = json.loads(state[8 : 8 + int.from_bytes(state[:8], "little")])
    inputs = json_texts.texts(_COUNTERS) if part == "meta" else safetensors.files(header)

    def restored(damaged: bytes) -> None:
        snapshot = from_files({**files, COUNTERS_FILE if part == "meta" else STATE_FILE: damaged})
        if shapes_of(snapshot.weights) == form.tensor_shapes():
            learner = Learner(form, cpu)
            learner.restore(snapshot)
            learner.snapshot()

    def feed(damaged: bytes) -> None:
        accepted_or_refused(lambda: restored(damaged), WeightsError, needs_field=False)

    yield Subject(inputs=inputs, feed=feed)


def _policy_read(path: Path) -> None:
    import torch

    from tlt_trainer.drafter.shared_weights import read_format, read_shared

    read_shared(path.parent, read_format(path.parent), torch.device("cpu"))


TARGETS = (
    *service_targets(
        "trainer",
        wire.pb.DESCRIPTOR.services_by_name["TrainerService"],
        _serve,
        control="GetProgress",
        valid={
            "Start": (wire.pb.StartRequest(epoch=1, ttl_s=5, policy_uri="/policy", policy_version=1),),
            "Preempt": (wire.pb.PreemptRequest(epoch=1),),
            "GetProgress": (wire.pb.GetProgressRequest(),),
        },
        weight=0.5,
    ),
    Target(name="trainer.checkpoints.meta", open=partial(_checkpoints, "meta"), weight=0.5),
    Target(name="trainer.checkpoints.state", open=partial(_checkpoints, "state"), weight=0.5),
    file_target(
        "trainer.policy.config",
        json_texts.texts(tiny_policy.CONFIG),
        _policy_read,
        file="config.json",
        prepare=tiny_policy.write,
        refusals=TltError,
        needs_field=False,
    ),
    file_target(
        "trainer.policy.weights",
        safetensors.files(tiny_policy.HEADER),
        _policy_read,
        file="model.safetensors",
        prepare=tiny_policy.write,
        refusals=WeightsError,
        needs_field=False,
    ),
)
