"""The GPUs that Ray assigns to a worker."""

import os

from tlt_common.errors import ConfigError
from tlt_worker.hardware.cuda import VISIBLE, gpus


def claim(assigned: int) -> None:
    """
    Hide all but the assigned GPUs from this process and its future children, the engine and the spot trainer.

    Args:
        assigned: Number of GPUs that Ray assigned; it names them in CUDA_VISIBLE_DEVICES.

    Raises:
        ConfigError: The CUDA driver does not find exactly the assigned GPUs. An engine must neither run on a CPU
            instead nor on a GPU of another worker.
    """
    if not assigned:
        # Ray may leave the variable unset for a replica without GPUs; every engine would then use the first GPU.
        os.environ[VISIBLE] = ""
        return
    if (found := len(gpus())) != assigned:
        named = os.environ.get(VISIBLE, "unset")
        raise ConfigError(
            f"Ray assigned {assigned} GPUs to this worker, but the CUDA driver finds {found} with {VISIBLE} "
            f"{named}; check the driver with `nvidia-smi -L`",
        )
