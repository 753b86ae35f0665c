import json
import urllib.request
from pathlib import Path

from tlt_common import __version__
from tlt_common.rpc.addresses import announce
from tlt_common.rpc.app import exposed
from tlt_tuner.config import TunerConfig


def test_a_process_says_what_runs_in_it_where_its_metrics_are_wanted(tmp_path: Path) -> None:
    config = TunerConfig(
        listen="127.0.0.1:0", metrics_port=0, metrics_host="127.0.0.2", port_file=tmp_path / "addresses.json"
    )
    with exposed(config):
        announce("grpc", "127.0.0.1:1")
        address = json.loads((tmp_path / "addresses.json").read_text())["metrics"]
        assert address.startswith("127.0.0.2:")
        with urllib.request.urlopen(f"http://{address}/metrics") as page:
            assert f'tlt_build_info{{component="tuner",version="{__version__}"}} 1.0' in page.read().decode()
