"""What holds for both images: what is in them, and what is not."""

import re
import stat
from pathlib import Path

import pytest

from tests.image.container import USER, Image, output

pytestmark = pytest.mark.image


@pytest.fixture(scope="module", params=["slim", "engine"])
def image(request: pytest.FixtureRequest) -> Image:
    found: Image = request.getfixturevalue(request.param)
    return found


def test_it_says_what_it_is(image: Image, version: str) -> None:
    labels = image.config["Labels"]
    target = image.name.rpartition("-")[2]
    assert image.name == f"localhost/tlt:{version}-{target}"
    assert labels["org.opencontainers.image.title"] == f"tlt-{target}"
    assert labels["org.opencontainers.image.version"] == version
    assert re.fullmatch("[0-9a-f]{40}", labels["org.opencontainers.image.revision"])
    assert image.config["User"] == f"{USER}:{USER}"
    assert image.config["StopSignal"] == "SIGTERM"


def test_its_user_can_change_nothing(image: Image) -> None:
    found = [
        path
        for path in image.files()
        if not path.is_symlink() and path.parent != image.root / "dev"  # which the runtime covers
        for status in [path.lstat()]
        if status.st_uid == USER or (status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX)
    ]
    assert not image.relative(found)


def test_no_file_lends_rights(image: Image) -> None:
    found = [path for path in image.files() if path.is_file() and path.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID)]
    assert not image.relative(found)


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


def test_its_user_has_a_name_and_a_home(image: Image, tmp_path: Path) -> None:
    code = "import getpass, pathlib; (pathlib.Path.home() / 'x').touch(); print(getpass.getuser(), pathlib.Path.home())"
    assert output(image, tmp_path / "u", ["python3", "-c", code]).split() == ["tlt", "/tmp"]  # noqa: S108 - the container's
