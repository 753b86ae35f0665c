"""
What the pod of a worker does before it ends: `python -m tlt_worker.leave SECONDS`, a preStop hook.

Ray's node drains: Serve ends the replica at once and in order, so that requests finish, and starts another elsewhere;
then Ray leaves the node. Without it, SIGTERM would end Ray and with it the engine in the middle of its responses.
"""

import os
import socket
import sys
import time
from typing import Any

from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)

POLL_S = 0.5
CONNECT_S = 2.0


def leave(head: str, address: str, within_s: float) -> bool:
    """
    Drain the node of that address and wait until Ray left it.

    Args:
        head: host:port of Ray's head.
        address: Of this pod.
        within_s: After that Ray leaves the node in any case. At most what Serve gives a replica to end, or Serve would
            look for a replacement first.

    Returns:
        Whether there was something to leave, and it was left in time.
    """
    if not reachable(head):
        # The whole cluster ends, or the head was lost: nobody could tell Serve. Ray's client would try for 40 s.
        return False
    # Compiled modules, about which nothing can be known before they run.
    from ray._raylet import GcsClient  # type: ignore[attr-defined]
    from ray.core.generated.autoscaler_pb2 import DrainNodeReason  # type: ignore[attr-defined]

    head_of_cluster = GcsClient(address=head)
    node = node_at(head_of_cluster, address)
    if node is None:
        return False
    deadline_s = time.time() + within_s
    reason = DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
    accepted, why_not = head_of_cluster.drain_node(node, reason, "its pod ends", int(deadline_s * 1000))
    if not accepted:
        log.warning("node_not_drained", reason=why_not)
        return False
    while time.time() < deadline_s:
        if node_at(head_of_cluster, address) is None:
            return True
        time.sleep(POLL_S)
    return False


def reachable(endpoint: str) -> bool:
    """Whether somebody listens there."""
    host, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_S).close()
    except OSError:
        return False
    return True


def node_at(head: Any, address: str) -> str | None:
    """The living node of that address, as hexadecimal id."""
    for node_id, node in head.get_all_node_info(timeout=10).items():
        if node.node_manager_address == address and node.state == node.ALIVE:
            name: str = node_id.hex()
            return name
    return None


def main() -> None:
    """Leave the Ray whose head the environment names."""
    seconds = float(sys.argv[1])
    left = leave(os.environ["RAY_ADDRESS"], os.environ["TLT_WORKER_ADVERTISE"], seconds)
    log.info("ray_left", in_time=left)


if __name__ == "__main__":
    main()
