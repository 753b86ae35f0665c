"""A drafter of the fleet that this trainer cannot train is named, and costs nothing."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from structlog.testing import capture_logs

from tests.unit.tlt_trainer.fleet_trainer import Trainer
from tests.unit.tlt_trainer.inline import FakeFleet
from tests.unit.tlt_trainer.tiny import CPU, TinyPolicy
from tlt_common.domain.fleet import DrafterWish
from tlt_common.domain.ids import DrafterVersion
from tlt_common.drafter.meta import META_FILE, WEIGHTS_FILE, DrafterMeta
from tlt_trainer.drafter.files import to_files
from tlt_trainer.learner import Learner
from tlt_trainer.store.storage import Storage

META = DrafterMeta(version=1, base=0, worker_id="w", steps=9, tokens=900, held_out_top1=0.9)


def files_of(policy: TinyPolicy, fault: str) -> dict[str, bytes]:
    from safetensors.torch import load, save

    form = replace(policy.form, hidden_size=16) if fault == "size" else policy.form
    files = to_files(Learner(form, CPU).weights(), form, META)
    tensors = load(files[WEIGHTS_FILE])
    if fault == "bias":
        tensors["fc.bias"] = torch.ones_like(tensors["fc.bias"])
    if fault == "nan":
        tensors["fc.weight"][0, 0] = float("nan")
    return {**files, WEIGHTS_FILE: save(tensors)[: 100 if fault == "cut" else None]}


@pytest.mark.parametrize(
    ("fault", "message"),
    [("bias", "fc.bias is not zero"), ("size", "fc.weight is"), ("nan", "not finite"), ("cut", "unreadable")],
)
async def test_it_is_named_and_training_goes_on_with_the_own_weights(
    one: Trainer, fleet: FakeFleet, policy: TinyPolicy, tmp_path: Path, fault: str, message: str
) -> None:
    uri = Storage(str(tmp_path / "elsewhere"), mark=META_FILE).write("d", files_of(policy, fault))
    fleet.drafter = DrafterWish(version=DrafterVersion(1), uri=uri)
    one.train(1, 2)
    weights = one.learner.weights()
    with capture_logs() as logs:
        assert not await one.sharing.follow()
    assert " cannot be trained further: " in one.sharing.problem
    (entry,) = [entry for entry in logs if entry["event"] == "drafter_unusable"]
    assert message in entry["error"]
    assert all(torch.equal(tensor, weights[name]) for name, tensor in one.learner.weights().items())
    one.train(1, 1)
    assert one.learner.counters.own_steps == 3


@pytest.mark.looptime
async def test_it_is_read_again_after_a_while_only(
    one: Trainer, fleet: FakeFleet, policy: TinyPolicy, tmp_path: Path
) -> None:
    storage = Storage(str(tmp_path / "elsewhere"), mark=META_FILE)
    fleet.drafter = DrafterWish(version=DrafterVersion(1), uri=storage.write("d", files_of(policy, "bias")))
    assert not await one.sharing.follow()
    storage.remove("d")
    storage.write("d", files_of(policy, ""))
    assert not await one.sharing.follow()
    assert "fc.bias is not zero" in one.sharing.problem
    await asyncio.sleep(2)
    assert await one.sharing.follow()
    assert one.sharing.problem == ""
