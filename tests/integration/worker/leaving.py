"""A Ray cluster of a head and two nodes; drains the node that runs a Serve replica. Writes the results as JSON."""

import asyncio
import json
import logging
import os
import sys
import time
from pathlib import Path

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import ray
from ray import serve
from ray.cluster_utils import Cluster

from tlt_worker.placement.leave import leave

STORE_BYTES = 80 * 2**20
WITHIN_S = 15.0
ENDS_S = 1.5


class Replica:
    """Records its start and its graceful end, which takes ENDS_S."""

    def __init__(self, record: str) -> None:
        self.record = Path(record)
        self.record.write_text(self.record.read_text() + "started\n")

    async def __del__(self) -> None:
        await asyncio.sleep(ENDS_S)
        self.record.write_text(self.record.read_text() + "ended\n")


def main(record: Path, result: Path) -> None:
    record.write_text("")
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE_BYTES},
    )
    hosts = ("127.0.0.2", "127.0.0.3")
    for host in hosts:
        cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES, node_ip_address=host)
    ray.init(address=cluster.address, logging_level=logging.ERROR, log_to_driver=False)
    try:
        serve.start(proxy_location="Disabled")
        deployment = serve.deployment(
            num_replicas=1, graceful_shutdown_timeout_s=WITHIN_S, ray_actor_options={"num_cpus": 1}
        )
        serve.run(deployment(Replica).bind(str(record)), name="workers", route_prefix=None)
        busy = next(host for host in hosts if not idle(host))
        began_s = time.monotonic()
        left = leave(cluster.address, busy, WITHIN_S)
        took_s = time.monotonic() - began_s
        at_return = record.read_text().split()
        deadline_s = time.monotonic() + 30
        while "started" not in record.read_text().split()[1:] and time.monotonic() < deadline_s:
            time.sleep(0.2)
        again = leave(cluster.address, busy, 1)
        told = {"left": left, "in_time": took_s < WITHIN_S, "at_return": at_return, "again": again}
        result.write_text(json.dumps({**told, "after": record.read_text().split()}))
    finally:
        serve.shutdown()  # type: ignore[no-untyped-call]
        ray.shutdown()
        cluster.shutdown()  # type: ignore[no-untyped-call]


def idle(host: str) -> bool:
    """Whether the node runs no replica."""
    node = next(node for node in ray.nodes() if node["NodeManagerAddress"] == host)  # type: ignore[no-untyped-call]
    free: float = ray._private.state.available_resources_per_node()[node["NodeID"]].get("CPU", 0)  # type: ignore[no-untyped-call]
    return free == 1


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
