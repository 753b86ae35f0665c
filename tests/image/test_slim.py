"""The image as it was built: what is in it, what is not, and that it runs with nothing but a folder for /tmp."""

import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.image.container import USER, Image, container, output, unpack

pytestmark = pytest.mark.image

ROOT = Path(__file__).parents[2]
WAIT_S = 30.0
END_S = 10.0
"""Half of what a pod has before it is killed."""
LARGEST_MIB = 400
BUILD_TOOLS = r"^(gcc|g\+\+|cc|c\+\+|ld|make|cmake|ninja|uv|uvx|pip[0-9.]*|git|curl|wget|nvcc)(-\d+)?$"


def version() -> str:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    archive = Path(os.environ.get("TLT_IMAGE", cache / f"tlt/image/tlt-{version()}-slim.tar"))
    if os.getuid() or not shutil.which("runc") or not archive.exists():
        pytest.skip("needs root, runc and the archive that `deploy/image/build slim` makes")
    root = tmp_path_factory.mktemp("image")
    root.chmod(0o755)  # it is the container's /
    yield unpack(archive, root)
    shutil.rmtree(root)


def relative(image: Image, paths: list[Path]) -> list[str]:
    return [str(path.relative_to(image.root)) for path in paths]


def test_it_says_what_it_is(image: Image) -> None:
    labels = image.config["Labels"]
    assert image.name == f"localhost/tlt:{version()}-slim"
    assert labels["org.opencontainers.image.title"] == "tlt-slim"
    assert labels["org.opencontainers.image.version"] == version()
    assert re.fullmatch("[0-9a-f]{40}", labels["org.opencontainers.image.revision"])
    assert image.config["User"] == f"{USER}:{USER}"
    assert image.config["StopSignal"] == "SIGTERM"


def test_it_is_small(image: Image) -> None:
    size = sum(path.lstat().st_size for path in image.files()) >> 20
    assert size <= LARGEST_MIB, f"{size} MiB unpacked"


def test_its_user_can_change_nothing(image: Image) -> None:
    found = [
        path
        for path in image.files()
        if not path.is_symlink() and path.parent != image.root / "dev"  # which the runtime covers
        for status in [path.lstat()]
        if status.st_uid == USER or (status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX)
    ]
    assert not relative(image, found)


def test_no_file_lends_rights(image: Image) -> None:
    found = [path for path in image.files() if path.is_file() and path.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID)]
    assert not relative(image, found)


def test_nothing_in_it_builds_or_installs(image: Image) -> None:
    found = [path for path in image.files() if re.match(BUILD_TOOLS, path.name) and not path.is_dir()]
    caches = [path for path in image.files() if path.name in {"pip", "ensurepip", "torch", "sglang", "ray"}]
    left = [
        path for name in ("var/lib/apt/lists", "root", "tmp", "build", "dist") for path in (image.root / name).glob("*")
    ]
    assert not relative(image, found)
    assert not relative(image, [path for path in caches if "site-packages" in path.parts or "ensurepip" in path.parts])
    assert not relative(
        image, [path for path in left if path.is_file() and path.stat().st_size and path.name[0] != "."]
    )


def test_no_setting_of_the_builder_is_left(image: Image) -> None:
    assert not list((image.root / "run/secrets").glob("*"))
    for path in (image.root / "etc").rglob("*"):
        assert path.name not in {"pip.conf", "uv.toml", ".netrc"}
    assert not [entry for entry in image.config["Env"] if re.match("(PIP|UV|SSL)_|.*_proxy", entry, re.IGNORECASE)]


def test_byte_code_is_there_and_trusted_without_a_look_at_the_source(image: Image) -> None:
    package = next(image.root.glob("opt/tlt/lib/python3*/site-packages/tlt_gateway"))
    compiled = {path.name.split(".")[0]: path.read_bytes() for path in package.rglob("*.pyc")}
    assert {path.stem for path in package.rglob("*.py")} == set(compiled)
    assert {code[4:8] for code in compiled.values()} == {b"\x01\0\0\0"}  # PEP 552: by hash, unchecked


def test_it_knows_its_version_and_every_service_that_it_is_for(image: Image, tmp_path: Path) -> None:
    assert output(image, tmp_path / "v", image.command("--version")).strip() == f"tlt {version()}"
    for service in ("gateway", "cache", "tuner", "coordinator"):
        assert "listen" in output(image, tmp_path / service, image.command("config", "explain", service))
        output(image, tmp_path / f"{service}-run", ["python3", "-c", f"import tlt_{service}.main"])


def test_its_user_has_a_name_and_a_home(image: Image, tmp_path: Path) -> None:
    code = "import getpass, pathlib; (pathlib.Path.home() / 'x').touch(); print(getpass.getuser(), pathlib.Path.home())"
    assert output(image, tmp_path / "u", ["python3", "-c", code]).split() == ["tlt", "/tmp"]  # noqa: S108 - the container's


@pytest.mark.parametrize("service", ["gateway", "cache", "tuner", "coordinator"])
def test_a_service_serves_is_healthy_and_ends_at_sigterm(image: Image, tmp_path: Path, service: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    command = image.command("serve", service, "--set", f"listen={address}")
    with container(image, tmp_path / "g", command) as process, grpc.insecure_channel(address) as channel:
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
