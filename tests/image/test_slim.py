"""The slim image as it was built: small, without tools, and each service runs with nothing but a folder for /tmp."""

import re
import signal
import socket
import subprocess
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.image.container import Image, container, output

pytestmark = pytest.mark.image

WAIT_S = 30.0
END_S = 10.0
"""Half of what a pod has before it is killed."""
LARGEST_MIB = 400
BUILD_TOOLS = r"^(gcc|g\+\+|cc|c\+\+|ld|make|cmake|ninja|uv|uvx|pip[0-9.]*|git|curl|wget|nvcc)(-\d+)?$"


def test_it_is_small(slim: Image) -> None:
    size = sum(path.lstat().st_size for path in slim.files()) >> 20
    assert size <= LARGEST_MIB, f"{size} MiB unpacked"


def test_nothing_in_it_builds_or_installs(slim: Image) -> None:
    found = [path for path in slim.files() if re.match(BUILD_TOOLS, path.name) and not path.is_dir()]
    caches = [path for path in slim.files() if path.name in {"pip", "ensurepip", "torch", "sglang", "ray"}]
    left = [
        path for name in ("var/lib/apt/lists", "root", "tmp", "build", "dist") for path in (slim.root / name).glob("*")
    ]
    assert not slim.relative(found)
    assert not slim.relative([path for path in caches if "site-packages" in path.parts or "ensurepip" in path.parts])
    assert not slim.relative([path for path in left if path.is_file() and path.stat().st_size and path.name[0] != "."])


def test_it_knows_its_version_and_every_service_that_it_is_for(slim: Image, version: str, tmp_path: Path) -> None:
    assert output(slim, tmp_path / "v", slim.command("--version")).strip() == f"tlt {version}"
    for service in ("gateway", "cache", "tuner", "coordinator"):
        assert "listen" in output(slim, tmp_path / service, slim.command("config", "explain", service))
        output(slim, tmp_path / f"{service}-run", ["python3", "-c", f"import tlt_{service}.main"])


@pytest.mark.parametrize("service", ["gateway", "cache", "tuner", "coordinator"])
def test_a_service_serves_is_healthy_and_ends_at_sigterm(slim: Image, tmp_path: Path, service: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    command = slim.command("serve", service, "--set", f"listen={address}")
    with container(slim, tmp_path / "g", command) as process, grpc.insecure_channel(address) as channel:
        reply = health_pb2_grpc.HealthStub(channel).Check(
            health_pb2.HealthCheckRequest(), timeout=WAIT_S, wait_for_ready=True
        )
        assert reply.status == health_pb2.HealthCheckResponse.SERVING
        process.send_signal(signal.SIGTERM)
        try:
            text, _ = process.communicate(timeout=END_S)
        except subprocess.TimeoutExpired:
            pytest.fail(f"still there {END_S} s after SIGTERM")
        assert process.returncode == 0, text
