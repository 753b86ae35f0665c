import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.errors import ConfigError
from tlt_worker.capacity.memory.memory import GIB, require_room

H100 = 80 * GIB


def test_a_model_of_7b_fits_one_gpu_and_one_of_32b_takes_two() -> None:
    require_room(15 * GIB, gpu_bytes=[H100], tensor_parallel=1, gpu_memory=0.8)
    require_room(61 * GIB, gpu_bytes=[H100] * 2, tensor_parallel=2, gpu_memory=0.8)
    with pytest.raises(
        ConfigError, match=r"61\.0 GiB.*set engine\.tensor_parallel to 2 \(in the chart, worker\.gpus\)"
    ) as no:
        require_room(61 * GIB, gpu_bytes=[H100], tensor_parallel=1, gpu_memory=0.8)
    assert no.value.field == "engine.tensor_parallel"


def test_more_ranks_than_gpus_are_refused() -> None:
    with pytest.raises(ConfigError, match="has 1 GPUs"):
        require_room(GIB, gpu_bytes=[H100], tensor_parallel=4, gpu_memory=0.8)


@given(st.integers(1, 700 * GIB), st.floats(0.1, 0.95))
def test_what_is_recommended_is_accepted(model_bytes: int, gpu_memory: float) -> None:
    try:
        require_room(model_bytes, gpu_bytes=[H100] * 512, tensor_parallel=1, gpu_memory=gpu_memory)
    except ConfigError as error:
        ranks = int(error.message.partition("set engine.tensor_parallel to ")[2].split()[0])
        require_room(model_bytes, gpu_bytes=[H100] * 512, tensor_parallel=ranks, gpu_memory=gpu_memory)
