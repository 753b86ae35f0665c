"""What the running API server would refuse, its schemas refuse before."""

from pathlib import Path

import pytest

from tests.cluster.kube import schemas
from tests.cluster.kube.commands import CommandError
from tests.cluster.kube.control_plane import ControlPlane

SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: a}
spec:
  ports: [{port: %s}]
"""


@pytest.fixture(scope="module")
def folder(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("schemas")
    assert schemas.write(control_plane, folder) > 200
    return folder


def test_a_right_manifest_passes(folder: Path) -> None:
    schemas.check(SERVICE % 80, folder)


@pytest.mark.parametrize("wrong", [SERVICE % "many", SERVICE % 80 + "  replicas: 2\n"])
def test_a_wrong_type_or_an_unknown_field_is_refused(folder: Path, wrong: str) -> None:
    with pytest.raises(CommandError, match="is invalid"):
        schemas.check(wrong, folder)
