from pathlib import Path

import pytest

from tlt_common.errors import ConfigError
from tlt_worker.placement.pods import SLOT, PodsSpec


def spec(**given: object) -> PodsSpec:
    return PodsSpec.model_validate({"worker": {"model": "/models/policy"}, **given})


def test_a_pod_tells_its_worker_name_and_address() -> None:
    config = spec().config(3, {"TLT_WORKER_POD": "tlt-worker-x7", "TLT_WORKER_ADVERTISE": "10.1.2.3"})
    assert (config.worker_id, config.pod, config.advertise) == ("worker-3", "tlt-worker-x7", "10.1.2.3")
    assert config.model == Path("/models/policy")


def test_settings_reach_the_worker_and_its_trainer() -> None:
    given = spec(worker={"model": "/m", "engine": {"max_running": 64}, "drain_s": 120}, trainer={"nice": 2})
    config = given.config(0, {})
    assert config.engine.max_running == 64
    assert config.trainer.settings == {"nice": 2}
    assert given.drain_s == 120


def test_a_setting_no_worker_knows_is_refused_with_what_is_accepted() -> None:
    with pytest.raises(ConfigError, match="unknown key 'speed'; accepted: listen"):
        spec(worker={"model": "/m", "speed": 9}).config(0, {})


@pytest.mark.parametrize("gpus", [0, 1, 8])
def test_a_worker_takes_one_slot_and_all_gpus_of_its_pod(gpus: int) -> None:
    bundle = spec(gpus_per_replica=gpus).bundle
    assert bundle[SLOT] == 1
    assert bundle.get("GPU", 0) == gpus


def test_an_argument_serve_should_not_get_is_refused() -> None:
    with pytest.raises(ValueError, match="gpu_count"):
        spec(gpu_count=1)
