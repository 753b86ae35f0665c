"""A private Ray instance on this machine."""

import logging
import os
import sys
import traceback
from collections.abc import Callable

import ray

from tlt_worker.placement.local import FleetSpec

OBJECT_STORE_BYTES = 80 * 2**20
"""Minimum that Ray accepts; workers store nothing in the object store."""


def start_ray(spec: FleetSpec, *, init: Callable[..., object] = ray.init) -> None:
    """
    Start a private Ray instance, or exit with os.EX_TEMPFAIL.

    Ray gives its node 30 s to start, which a busy machine exceeds. A retry needs a new process, since parts of the
    first attempt would still run in this one.
    """
    try:
        init(
            num_cpus=spec.replicas,
            num_gpus=spec.replicas * spec.gpus_per_worker,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            object_store_memory=OBJECT_STORE_BYTES,
            _temp_dir=str(spec.directory / "ray"),
        )
    except Exception as error:  # noqa: BLE001 - what Ray raises
        traceback.print_exc()
        print(f"Ray did not start: {error}", file=sys.stderr, flush=True)  # noqa: T201 - the reason that `tlt up` shows
        sys.exit(os.EX_TEMPFAIL)
