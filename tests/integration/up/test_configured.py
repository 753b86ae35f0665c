"""`tlt up` with a file, `--set` and TLS, started from the command line, on a real engine."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from tests.fakes.authority import Authority
from tlt_common.client import Client, SamplingParams
from tlt_local.configuration.certificates import COMPONENTS

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

MODEL = Path(__file__).parents[3] / "demos" / "countdown" / "countdown" / "checkpoint"
TLT = (sys.executable, "-m", "tlt_common.cli")
FILE = {
    "model": str(MODEL),
    "workers": 1,
    "port": 0,
    "worker": {"engine": {"max_running": 3, "dtype": "float32", "arms": "off,chain-3"}},
    "coordinator": {"spot": {"max_trainers": 1}},
}
END_S = 60


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    authority = Authority(tmp_path_factory.mktemp("tls"))
    for component in COMPONENTS:
        authority.issue(component)
    return authority


@pytest.fixture(scope="module")
def printed(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The lines a run prints once it is ready, by their first word."""
    file = tmp_path_factory.mktemp("up") / "up.yaml"
    file.write_text(yaml.safe_dump(FILE))
    options = [
        "--config",
        str(file),
        "--set",
        "worker.engine.max_running=5",
        "--set",
        "worker.engine.context_length=512",
    ]
    command = [*TLT, "up", *options, "--tls", str(authority.ca.parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines: dict[str, str] = {}
        for line in process.stdout:
            word, _, rest = line.strip().partition(" ")
            lines[word] = rest.strip()
            if word == "Ctrl-C":
                break
        yield lines
        process.send_signal(signal.SIGINT)
        assert process.wait(END_S) == 0


def endpoint(printed: dict[str, str]) -> str:
    return printed["ready"].split()[2]


def test_options_reach_the_engine_and_status_reads_them_by_tls(printed: dict[str, str]) -> None:
    _, command = printed["next"].split("tlt ", 1)
    told = subprocess.run([*TLT, *command.split(), "--once", "--json"], capture_output=True, text=True, check=True)
    (worker,) = json.loads(told.stdout)["workers"]
    assert worker["hello"]["max_running"] == 5


async def test_a_client_that_trusts_the_authority_gets_responses(printed: dict[str, str], authority: Authority) -> None:
    async with Client(endpoint(printed), ca=authority.ca) as client:
        groups = await client.batch([[1, 5]], samples=2, sampling=SamplingParams(max_new_tokens=4))
    assert [len(response.token_ids) <= 4 for response in groups[0]] == [True, True]


def test_metrics_and_page_are_encrypted(printed: dict[str, str], authority: Authority) -> None:
    url = printed["metrics"].split()[0]
    assert url.startswith("https://")
    with httpx.Client(verify=authority.client()) as client:
        assert client.get(url).status_code == httpx.codes.OK
        page = client.get(printed["page"].split()[0])
        assert (page.status_code, page.headers["content-type"]) == (httpx.codes.OK, "text/html; charset=utf-8")
