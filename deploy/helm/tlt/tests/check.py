"""
What `helm test` runs in the cluster: services are ready and measured, the gateway answers those who may ask, and Ray's
job API, which runs any code, answers nobody.

Without a cluster: TLT_CHECK='{"gateway": "localhost:7700", ...}' python check.py
"""

import json
import os
import socket
import ssl
import sys
import time
from pathlib import Path

from tlt_common.client import BlockingClient, SamplingParams, TokenChunk
from tlt_common.errors import TltError, UnavailableError

PAUSE_S = 5.0
REACHED_S = 5.0
"""Time limit for reaching a port that should be closed, in seconds."""


def main() -> None:
    """Run all checks; exit with a message if one fails."""
    told = json.loads(os.environ["TLT_CHECK"])
    ca = Path(told["ca"]) if told["ca"] else None
    for component, address in told["operations"].items():
        ready(component, address, ca)
    token = Path(told["token"]).read_text().strip() if told["token"] else None
    if token is not None:
        refused(told["gateway"], ca)
    response = rollout(told["gateway"], ca, token, deadline_s=time.monotonic() + told["patience_s"])
    print(f"a rollout: {len(response.token_ids)} tokens")
    jobs_closed(told["ray"], policies=told["closed"])


def ready(component: str, address: str, ca: Path | None) -> None:
    """Check that a service accepts calls and exports the suite's metrics."""
    for path, expected in (("/readyz", b""), ("/metrics", b"tlt_")):
        head, _, body = get(component, address, path, ca).partition(b"\r\n\r\n")
        status = head.split(b"\r\n")[0].decode()
        if " 200" not in status or expected not in body:
            sys.exit(f"{component} at {address}{path}: {status or 'no answer'}, {len(body)} bytes")
    print(f"{component} is ready and has metrics")


def get(component: str, address: str, path: str, ca: Path | None) -> bytes:
    """Send an HTTP request. The certificate is checked for the component's name, not for the host."""
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=10)
    if ca is not None:
        context = ssl.create_default_context(cafile=str(ca))
        connection = context.wrap_socket(connection, server_hostname=f"{component}.tlt.internal")
    with connection, connection.makefile("rb") as answer:
        connection.sendall(f"GET {path} HTTP/1.0\r\nHost: {component}\r\n\r\n".encode())
        return answer.read()


def jobs_closed(ray: str, *, policies: bool) -> None:
    """Check that this pod cannot list Ray's jobs; with network policies, that it does not even reach the port."""
    host, _, port = ray.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=REACHED_S) as connection:
            connection.sendall(f"GET /api/jobs/ HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
            status = connection.makefile("rb").readline().split()
    except socket.gaierror as error:
        sys.exit(f"Ray's head at {ray} cannot be found: {error}")
    except OSError as error:  # a policy drops the packets, or a firewall answers for the head
        print(f"Ray's dashboard is closed to other pods: {error}")
        return
    if status[1:2] not in ([b"401"], [b"403"]):
        sys.exit(f"Ray's job API at {ray} answers a pod without a token: set worker.rayAuth=token; {status}")
    print("Ray's job API refuses calls without a token")
    if policies:
        print(f"WARNING: {ray} is reachable: this cluster does not enforce NetworkPolicies")


def refused(gateway: str, ca: Path | None) -> None:
    """Check that the gateway refuses calls without a token."""
    try:
        with BlockingClient(gateway, ca=ca, tls=ca is not None) as client:
            client.generate([1], SamplingParams(max_new_tokens=1), timeout_s=30)
    except UnavailableError as error:
        sys.exit(f"the gateway at {gateway} cannot be reached: {error}")
    except TltError as error:
        print(f"without a token: {error}")
    else:
        sys.exit(f"the gateway at {gateway} answered a call without a token")


def rollout(gateway: str, ca: Path | None, token: str | None, *, deadline_s: float) -> TokenChunk:
    """Request a few tokens; engines may still be loading their model."""
    with BlockingClient(gateway, token=token, ca=ca, tls=ca is not None) as client:
        while True:
            try:
                return client.generate([1, 2, 3], SamplingParams(max_new_tokens=8, ignore_eos=True), timeout_s=120)
            except UnavailableError as error:
                if time.monotonic() > deadline_s:
                    sys.exit(f"no rollout: {error}")
                print(f"not yet: {error}", flush=True)
                time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
