"""Rules of the Dockerfile that hadolint does not know. `make lint` runs hadolint."""

import fnmatch
import re
import subprocess
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
CONSTRAINTS = (ROOT / "deploy/constraints.txt").read_text()
SOURCES = [ROOT / "Dockerfile", *sorted((ROOT / "deploy/image").iterdir())]
CUDA_COMPILER = ("nvcc", "crt", "nvrtc", "runtime")


class Step(NamedTuple):
    """One instruction; a comment is none."""

    word: str
    rest: str


class Stage(NamedTuple):
    name: str
    base: str
    steps: list[Step]


def stages() -> dict[str, Stage]:
    """By name. What precedes the first FROM is the stage ""."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    found = {"": Stage("", "", [])}
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            found[name] = Stage(name, base, [])
        elif word:
            list(found.values())[-1].steps.append(Step(word, rest))
    return found


def lineage(name: str) -> list[Step]:
    """The steps of a stage and of all that it stands on, oldest first."""
    every = stages()
    return [*(lineage(every[name].base) if every[name].base in every else []), *every[name].steps]


def extras(name: str) -> set[str]:
    return {extra for step in lineage(name) for extra in re.findall(r"--extra (\S+)", step.rest)}


def hidden(path: str) -> bool:
    """Whether .dockerignore keeps a path out of the build; the last line that speaks of it decides."""
    parents = ["/".join(path.split("/")[: depth + 1]) for depth in range(path.count("/") + 1)]
    verdict = False
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        pattern = line.removeprefix("!").removeprefix("**/")
        names = [part for name in parents for part in (name, name.split("/")[-1])] if "**/" in line else parents
        if any(fnmatch.fnmatch(name, pattern) for name in names):
            verdict = not line.startswith("!")
    return verdict


@pytest.mark.parametrize("target", ["slim", "engine"])
def test_a_target_runs_tlt_as_a_number_that_is_not_root(target: str) -> None:
    last = {step.word: step.rest for step in lineage(target)}
    assert last["USER"] == "65532:65532"  # a number: the kubelet's runAsNonRoot cannot judge a name
    assert last["ENTRYPOINT"] == '["tlt"]'  # a shell as the first process would keep SIGTERM for itself
    assert last["STOPSIGNAL"] == "SIGTERM"
    assert "CMD [" in last["HEALTHCHECK"]
    assert stages()[target].steps[-1].word == "USER", "a step after USER would run without rights"


@pytest.mark.parametrize("target", ["slim", "engine"])
def test_a_target_says_what_it_is(target: str) -> None:
    labels = " ".join(step.rest for step in lineage(target) if step.word == "LABEL")
    for key in ("title", "description", "version", "revision", "source", "licenses"):
        assert f"org.opencontainers.image.{key}=" in labels
    assert f'title="tlt-{target}"' in labels


def test_one_argument_names_the_base_and_its_default_is_exact() -> None:
    assert stages()[""].steps[0].word == "ARG"
    base = stages()[""].steps[0].rest
    assert re.fullmatch(r"BASE=docker\.io/library/python:3\.1[12]\.\d+-slim-[a-z]+(@sha256:[0-9a-f]{64})?", base)
    every = stages()
    assert {stage.base for stage in every.values() if stage.name} <= {"${BASE}", *every}


def test_nothing_is_fetched_but_by_package_managers() -> None:
    for stage in stages().values():
        for step in stage.steps:
            assert step.word != "ADD"
            assert not re.search(r"\b(curl|git clone|sudo|chmod 777)\b|(https?|ftp)://", step.rest), step
            assert not re.search(r"(?i)(password|secret|token)=", step.rest.replace("type=secret", "")), step


def test_python_packages_are_pinned_and_never_built() -> None:
    for stage in stages().values():
        for step in stage.steps:
            if "uv pip install" in step.rest and "--no-deps" not in step.rest:
                assert "--require-hashes" in step.rest
                assert "-c constraints.txt" in step.rest
                assert "--only-binary :all:" in step.rest
                assert "with-index uv" in step.rest


def test_each_pinned_package_has_the_hashes_of_its_files() -> None:
    pins = re.findall(r"^\S+==.*(?:\n    .*)*", CONSTRAINTS, re.MULTILINE)
    assert len(pins) > 300
    assert [pin for pin in pins if not re.search(r"\n    --hash=sha256:[0-9a-f]{64}$", pin)] == []


def test_the_build_sees_each_file_that_is_copied_and_git_has_it() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    copied = [
        source
        for stage in stages().values()
        for step in stage.steps
        if step.word == "COPY" and "--from" not in step.rest
        for source in step.rest.split()[:-1]
    ]
    assert copied
    for source in copied:
        assert any(name == source or name.startswith(f"{source}/") for name in tracked), source
        assert not hidden(source), source


@pytest.mark.parametrize(
    "path", [".git/config", ".env", ".venv/bin/python", "tests/image/x.py", "deploy/helm/tlt/values.yaml", "id_rsa"]
)
def test_the_build_does_not_see_the_rest(path: str) -> None:
    assert hidden(path)


def test_byte_code_of_the_checkout_stays_out() -> None:
    assert hidden("services/tlt_gateway/__pycache__/main.cpython-311.pyc")
    assert not hidden("services/tlt_gateway/main.py")


def test_each_service_has_an_image_with_its_extra() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    services = set(project["entry-points"]["tlt.services"])
    slim, engine = extras("slim-packages"), extras("engine-environment")
    assert slim == (services - {"worker", "trainer"}) | {"client", "traces"}
    assert engine == services | {"client", "stores", "traces"}  # s3:// and gs:// need packages of their own
    assert engine <= set(project["optional-dependencies"])


def test_the_kernel_compiler_is_of_the_release_of_the_headers() -> None:
    """Else no kernel of FlashInfer or SGLang compiles: their headers refuse an nvcc of another release."""
    pins = dict(re.findall(r"^(\S+)==([^\s;]+)", CONSTRAINTS, re.MULTILINE))
    releases = {name: pins[f"nvidia-cuda-{name}"].split(".")[:2] for name in CUDA_COMPILER}
    releases["nvvm"] = pins["nvidia-nvvm"].split(".")[:2]
    assert len({tuple(release) for release in releases.values()}) == 1, releases


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_no_package_index_or_proxy_is_named(path: Path) -> None:
    assert not re.search(r"https?://", path.read_text())
