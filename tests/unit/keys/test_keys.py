"""Keys, options and values mentioned in errors and descriptions exist."""

import re
from functools import cache
from pathlib import Path

import pytest
from pydantic import BaseModel

from chartvalues.chart import Chart
from chartvalues.filled import model_of
from tests.unit.keys.known import SERVICES, keys_at, keys_of, options
from tests.unit.keys.messages import HOLE, ROOT, Refusal, refusals, sources
from tlt_common.config.base import model_in

OF_VERL = (
    "rollout.full_determinism",
    "rollout.enable_rollout_routing_replay",
    "rollout.prometheus.enable",
    "model.lora.merge",
)
"""Settings of verl that its adapter refuses."""
OF_NEMO_RL = (
    "algorithm",
    "async_rl.generation_fleet_health.enabled",
    "env.should_use_nemo_gym",
    "nccl_reshard",
    "nemo_rl.algorithms.grpo",
    "policy.draft.enabled",
    "policy.generation.refit_transport",
    "policy.generation.vllm_cfg.kv_cache_dtype",
)
"""Settings, a transport and a module of NeMo-RL, and an argument, which its adapter refuses."""
COMPUTED: dict[tuple[str, str], tuple[str, ...]] = {
    ("demos/countdown/countdown/settings.py", "wanted[-1]"): ("quick", "warm", "no_tail", "shallow"),
    ("benchmarks/tlt_bench/engines/prepare.py", "name"): ("model", "drafter"),
    ("tlt_common/integrations/verl/settings.py", "field"): OF_VERL,
    # User input.
    ("tlt_common/config/loader.py", "key"): (),
    ("tlt_common/config/loader.py", "key or name"): (),
    ("tlt_common/config/loader.py", "'.'.join(keys)"): (),
    ("tlt_common/bandit/round_trace.py", "unknown[0]"): (),
    ("tlt_common/bandit/round_trace.py", "field"): (
        "at_s",
        "accepted",
        "batch",
        "drafted",
        "drafter",
        "elapsed_s",
        "policy",
    ),
    ("tlt_common/recorded_rollouts.py", "self.option.removeprefix('--')"): ("data", "startup_responses"),
    ("tlt_common/rpc/channel.py", "PROXY_VARIABLE"): (),  # an environment variable
    ("tlt_common/rpc/addresses.py", "named.lstrip('-')"): ("port", "listen"),
    ("tlt_common/rpc/http/server.py", "key"): ("http_listen", "http.listen"),
    ("tlt_common/rpc/security/certificates.py", "field"): ("tls.ca", "ca"),
    ("tlt_common/rpc/security/reloaded.py", "field"): ("tls.certificate", "tls.key", "tls.ca", "tokens", "token", "ca"),
    ("services/tlt_trainer/offline/beginning.py", "option.replace('-', '_')"): ("layers", "draft_vocabulary"),
    ("services/tlt_simulator/cli/app.py", "inputs.given[0].lstrip('-')"): ("case", "trace"),
    ("services/tlt_simulator/traces/apart.py", "field"): (),  # of an error of the process that reads
    ("services/tlt_simulator/cli/command.py", "name"): ("sample", "processes"),
    ("services/tlt_simulator/cli/fit_command.py", "missing"): ("card", "model"),
    ("services/tlt_simulator/cli/output.py", "option.lstrip('-')"): ("json", "html", "save"),
    ("services/tlt_simulator/cli/inputs.py", "name"): ("card", "model", "gpus", "gpus_per_worker", "slots"),
    ("services/tlt_simulator/cli/inputs.py", "name.lstrip('-')"): ("row", "form", "cap", "tokenizer", "prompts"),
    ("services/tlt_simulator/cli/sweep_command.py", "name"): ("seeds", "processes"),
    ("services/tlt_simulator/fit/rounds.py", "field"): ("round_fixed_s", "draft_fixed_s"),
    ("services/tlt_simulator/sweep/keys.py", "option.lstrip('-')"): ("set", "over"),
    ("services/tlt_simulator/traces/drawn.py", "name"): ("steps", "prompts", "group"),
    ("services/tlt_simulator/traces/reading.py", "name"): ("group", "cap"),
    # User input: keys, fields of a file of costs, and of a benchmark's lines.
    ("services/tlt_simulator/sweep/keys.py", "given"): (),
    ("services/tlt_simulator/sweep/keys.py", "origin"): (),
    ("services/tlt_simulator/costs/files.py", "field"): (),
    ("services/tlt_simulator/costs/benchmarks.py", "name"): (),
    # Empty, or tokens.0.scopes and the like.
    ("tlt_common/rpc/security/tokens.py", "key"): ("tokens",),
}
"""Fields that are not literals, by file and expression: the keys they may evaluate to."""
NO_KEYS = {
    "config.json",
    "max_position_embeddings",
    "vocab_size",
    "hidden_act",
    "num_hidden_layers",
    "tokens.yaml",
    "update_weights",
    "expires_at",
    "service_account",
    "TLT_CHROMIUM",
    "median_decode_latency",
    "last_ttft",
    "median_tpot_ms",
    *OF_VERL,
    *OF_NEMO_RL,
    "rollout.name",
    "checkpoint_engine.backend",
    "trainer.v1.trainer_mode",
    "actor_rollout_ref.hybrid_engine",
}
"""Other names: files, keys of a model's config.json, entries of a token file, settings of trainers, figures of
SGLang's benchmarks."""
FAIL = re.compile(r'fail (?:\(printf )?"((?:[^"\\]|\\.)*)"')
VALUE = re.compile(r"(?<![\w/:.@-])[a-z%][A-Za-z_%]*(?:\.[A-Za-z_%]+)+(?![\w/]|\.?\d)")
API = re.compile(r"[\w.-]+\.io/\S*")
FILES = (".crt", ".key", ".io", ".yaml", ".json")


@cache
def all_options() -> set[str]:
    return options()


def unknown(refusal: Refusal) -> set[str]:
    """Return the names in a refusal that do not exist."""
    path = ROOT / refusal.file
    keys = keys_at(path) | all_options()
    named = {name for name in refusal.names - NO_KEYS if not name.endswith(FILES)}
    found = {name for name in named if not _exists(name, keys)}
    fields = [] if refusal.field is None else [refusal.field]
    if refusal.expression:
        fields += COMPUTED.get((refusal.file, refusal.expression), (f"{refusal.expression} (see COMPUTED)",))
    return found | {field for field in fields if field not in NO_KEYS and not _exists(field, keys)}


def _exists(name: str, keys: set[str]) -> bool:
    if name.startswith("--"):
        return name.removeprefix("--").replace("-", "_") in all_options()
    if name.startswith("worker.") and name.removeprefix("worker.") in chart_values("worker"):
        return True
    return name.partition(HOLE)[0].rstrip(".") in {*keys, ""}


@cache
def chart_values(block: str = "") -> frozenset[str]:
    """Return the values of the chart, including those of services; with `block`, the values below it."""
    settings = {f"{name}.config.{key}" for name in SERVICES if name != "trainer" for key in keys_of(model_of(name))}
    every = {*keys_of(Chart), *settings, *(f"worker.trainer.{key}" for key in keys_of(model_of("trainer")))}
    return frozenset(key.removeprefix(f"{block}.") for key in every if key.startswith(f"{block}." if block else ""))


@pytest.mark.parametrize("folder", ["services", "tlt_common", "benchmarks", "demos"])
def test_errors_name_keys_that_exist(folder: str) -> None:
    paths = [path for path in sources() if path.is_relative_to(ROOT / folder)]
    wrong = {f"{one.file}:{one.line}": names for path in paths for one in refusals(path) if (names := unknown(one))}
    assert not wrong
    assert any(True for path in paths for _ in refusals(path)), "no errors were found to check"


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ('raise ConfigError("engine.dtype is wrong", field="engine.dtype")', set()),
        ('raise ConfigError("x", field="engine.type")', {"engine.type"}),
        ('raise ConfigError("x", field="tensor_parallel")', {"tensor_parallel"}),
        ('raise ConfigError(f"{a}; set tensor_parallel to {b}", field="engine.tensor_parallel")', {"tensor_parallel"}),
        ('raise ConfigError("set worker.gpus or worker.gpu", field=f"tls.{name}")', {"worker.gpu"}),
        ('raise ConfigError("give --json or --xml")', {"--xml"}),
        ('raise ConfigError("x", field=f"motors.{name}")', {"motors.{}"}),
        ('raise ConfigError("x", field=found)', {"found (see COMPUTED)"}),
        ('def _no(m) -> ConfigError: ...\nraise _no("a smaller gpu_memory")', {"gpu_memory"}),
    ],
)
def test_a_wrong_key_is_found(code: str, wrong: set[str]) -> None:
    path = ROOT / "services/tlt_worker/capacity/memory/memory.py"
    assert {name for one in refusals(path, code) for name in unknown(one)} == wrong


def test_computed_fields_still_exist() -> None:
    found = {(one.file, one.expression) for path in sources() for one in refusals(path) if one.expression}
    assert found == COMPUTED.keys()


def wrong_values(template: str) -> set[str]:
    """Return values mentioned in messages of a template that the chart does not have. %s stands for any key."""
    names = {
        name
        for message in FAIL.findall(template)
        for name in VALUE.findall(API.sub(" ", message.replace("\\n", " ")))
        if not name.endswith(FILES)
    }
    patterns = {name: re.compile(re.escape(name).replace("%s", r"\w+")) for name in names}
    return {name for name, pattern in patterns.items() if not any(map(pattern.fullmatch, chart_values()))}


def test_the_charts_messages_name_values_that_exist() -> None:
    templates = [path.read_text() for path in (ROOT / "deploy/helm/tlt/templates").rglob("*") if path.is_file()]
    assert sum(len(FAIL.findall(text)) for text in templates) > 15
    assert not {name for text in templates for name in wrong_values(text)}


def test_a_wrong_value_in_a_message_is_found() -> None:
    template = '{{ fail "\\n\\ntraces is set: set network_policy.traces or networkPolicy.traces" }}'
    assert wrong_values(template) == {"network_policy.traces"}
    assert wrong_values('{{ fail (printf "%s.source: set %s.hostPaths.path" $a $b) }}') == {"%s.hostPaths.path"}


def described(model: type[BaseModel], root: type[BaseModel], prefix: str = "") -> dict[str, set[str]]:
    """Return the keys in backticks that descriptions mention and that neither their block nor the root has; by key."""
    wrong: dict[str, set[str]] = {}
    near = {*keys_of(model), *(chart_values() if root is Chart else keys_of(root))}
    for name, field in model.model_fields.items():
        named = set(re.findall(r"`([a-z]\w*(?:\.\w+)+|[a-z]+(?:_[a-z]+)+)`", field.description or "")) - NO_KEYS
        if bad := {one for one in named if one not in near and not one.endswith(FILES)}:
            wrong[prefix + name] = bad
        if (inner := model_in(field.annotation)) is not None:
            wrong |= described(inner, root, f"{prefix}{name}.")
    return wrong


@pytest.mark.parametrize("service", SERVICES)
def test_descriptions_of_keys_name_keys_that_exist(service: str) -> None:
    model = model_of(service)
    assert not described(model, model)


def test_descriptions_of_values_name_values_that_exist() -> None:
    assert not described(Chart, Chart)


def test_every_source_is_read() -> None:
    assert Path(ROOT / "services/tlt_worker/engine_config.py") in set(sources())
