"""docs/configuration.md: every key of every service, from the models that `tlt config explain` reads."""

import inspect
from collections.abc import Iterable, Iterator

from reference.markdown import cell, table
from tlt_common.config.base import ServiceConfig
from tlt_common.config.entry import service_entry
from tlt_common.config.explain import ConfigKey, keys

SERVICES = ("gateway", "worker", "cache", "trainer", "tuner", "coordinator")
INTRODUCTION = """# Configuration

For people who run the services: every key, its default and what it means.

Each service has one configuration. Values come from these sources; a later one overrides an earlier one:

1. the defaults below
2. a YAML or JSON file: `tlt serve NAME --config FILE`
3. environment variables: `TLT_WORKER_DRAIN_S=60`; `__` separates nested keys: `TLT_WORKER_ENGINE__MAX_RUNNING=32`
4. options: `--set drain_s=60`; dots separate nested keys: `--set engine.max_running=32`

Unknown keys and values out of range are errors. `tlt config check NAME` prints the resulting configuration, and
`tlt config explain NAME` the table of one service. On Kubernetes set the chart's values instead
([Kubernetes](kubernetes.md)).
"""


def page() -> str:
    """The keys that all services have, then those of each."""
    common = list(keys(ServiceConfig))
    parts = [INTRODUCTION, "## All services\n", _table(common)]
    for name in SERVICES:
        model = service_entry(name).keys
        own = [key for key in keys(model) if key not in common]
        parts += [f"## {name.capitalize()}\n", f"{inspect.getdoc(model)}\n", _table(own)]
    return "\n".join(parts)


def _table(rows: Iterable[ConfigKey]) -> str:
    return table(("key", "type", "default", "meaning"), (tuple(_cells(key)) for key in rows))


def _cells(key: ConfigKey) -> Iterator[str]:
    yield f"`{key.name}`"
    yield f"`{cell(key.kind)}`" + (f", {cell(key.bounds)}" if key.bounds else "")
    yield "required" if key.default is None else f"`{cell(key.default)}`"
    yield cell(key.meaning)
