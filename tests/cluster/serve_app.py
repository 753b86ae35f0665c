"""A Serve application for tests: says its greeting and the pod it lives in."""

import os
from typing import Any

from ray import serve


@serve.deployment(name="greeter", ray_actor_options={"num_cpus": 1, "num_gpus": 1})
class Greeter:
    def __init__(self, greeting: str) -> None:
        self._greeting = greeting

    def reconfigure(self, config: dict[str, Any]) -> None:
        """Serve calls it when only `user_config` changed: the replica stays."""
        self._greeting = config["greeting"]

    async def __call__(self, _request: object) -> str:
        return f"{self._greeting} from {os.environ['RAY_CLOUD_INSTANCE_ID']}"


def build(arguments: dict[str, str]) -> serve.Application:
    application: serve.Application = Greeter.bind(arguments["greeting"])  # type: ignore[attr-defined]
    return application
