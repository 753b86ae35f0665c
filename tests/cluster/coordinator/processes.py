"""Coordinators as processes beside a real API server, with the rights they have in a cluster."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.kube.client import Client, Object

ACCOUNT = "coordinator"
STATE = "tlt-coordinator-state"
START_S = 60.0

ROLE: Object = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "Role",
    "metadata": {"name": ACCOUNT},
    "rules": [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "patch"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [STATE], "verbs": ["get", "update"]},
    ],
}


def grant(ns: Client, role: Object = ROLE) -> None:
    """Make the service account and give it the role."""
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": ACCOUNT}
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": ns.namespace}
    ns.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}},
        role,
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": ACCOUNT},
            "roleRef": reference,
            "subjects": [subject],
        },
    )


@dataclass
class CoordinatorProcess:
    """One process."""

    pod: str
    process: asyncio.subprocess.Process
    address: str
    log: Path


@asynccontextmanager
async def coordinator(ns: Client, account: Client, pod: str, folder: Path) -> AsyncIterator[CoordinatorProcess]:
    """A coordinator that thinks it is that pod; killed at the end if it still runs."""
    assert ns.namespace
    ports, log = folder / f"{pod}.json", folder / f"{pod}.log"
    settings = {
        "listen": "127.0.0.1:0",
        "port_file": ports,
        "kubernetes.namespace": ns.namespace,
        "kubernetes.pod": pod,
        "kubernetes.config_map": STATE,
        "kubernetes.kubeconfig": account.kubeconfig,
    }
    pairs = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            Path(sys.executable).parent / "tlt",
            "serve",
            "coordinator",
            *pairs,
            stdout=file,
            stderr=file,
            env=os.environ,
        )
    try:
        async with asyncio.timeout(START_S):
            while not ports.exists():
                assert process.returncode is None, log.read_text()
                await asyncio.sleep(0.05)
        yield CoordinatorProcess(pod, process, json.loads(ports.read_text())["grpc"], log)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
