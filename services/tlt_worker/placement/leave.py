"""
PreStop hook of a worker's pod: `python -m tlt_worker.placement.leave SECONDS`.

It drains the pod's Ray node: Serve stops the replica gracefully, so that its requests finish, and starts another one
elsewhere; then Ray leaves the node. Without it, SIGTERM would stop Ray and the engine with requests in flight.
"""

import os
import socket
import sys
import time
from typing import Any

from tlt_common.rpc.addresses import split
from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)

POLL_S = 0.5
CONNECT_S = 2.0


def leave(head: str, address: str, within_s: float) -> bool:
    """
    Drain the node with this address and wait until Ray has left it.

    Args:
        head: host:port of Ray's head.
        address: Address of this pod.
        within_s: Timeout, after which Ray leaves the node in any case. Must not exceed Serve's graceful shutdown
            timeout of a replica, or Serve would start a replacement first.

    Returns:
        Whether the node existed and was left in time.
    """
    if not reachable(head):
        # The whole cluster is stopping, or the head is lost. Ray's client would retry for 40 s.
        return False
    # Compiled modules, without types.
    from ray._raylet import GcsClient  # type: ignore[attr-defined]
    from ray.core.generated.autoscaler_pb2 import DrainNodeReason  # type: ignore[attr-defined]

    head_of_cluster = GcsClient(address=head)
    node = node_at(head_of_cluster, address)
    if node is None:
        return False
    # Ray takes a date; what waits here must not depend on whether somebody sets the clock.
    deadline_ms, deadline_s = int((time.time() + within_s) * 1000), time.monotonic() + within_s
    reason = DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
    accepted, why_not = head_of_cluster.drain_node(node, reason, "the pod terminates", deadline_ms)
    if not accepted:
        log.warning("node_not_drained", reason=why_not)
        return False
    while time.monotonic() < deadline_s:
        if node_at(head_of_cluster, address) is None:
            return True
        time.sleep(POLL_S)
    return False


def reachable(endpoint: str) -> bool:
    """Return whether the endpoint accepts connections."""
    host, port = split(endpoint)
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_S).close()
    except OSError:
        return False
    return True


def node_at(head: Any, address: str) -> str | None:
    """Return the hexadecimal id of the running node with this address; None if there is none."""
    for node_id, node in head.get_all_node_info(timeout=10).items():
        if node.node_manager_address == address and node.state == node.ALIVE:
            name: str = node_id.hex()
            return name
    return None


def main() -> None:
    """Leave the Ray cluster whose head is named by the environment."""
    seconds = float(sys.argv[1])
    left = leave(os.environ["RAY_ADDRESS"], os.environ["TLT_WORKER_ADVERTISE"], seconds)
    log.info("ray_left", in_time=left)


if __name__ == "__main__":
    main()
