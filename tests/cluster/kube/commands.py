"""Run a command, and say what it printed when it fails."""

import os
import subprocess
from collections.abc import Mapping


class CommandError(Exception):
    """A command exited with `code`; the message carries both its outputs."""

    def __init__(self, program: str, code: int, output: str) -> None:
        super().__init__(f"{program} exited {code}: {output.strip()}")
        self.code = code
        self.output = output


def run(
    *command: object, stdin: str | None = None, env: Mapping[str, str] | None = None, timeout_s: float = 180.0
) -> str:
    """
    The standard output of a command; `env` adds to the environment.

    Raises:
        CommandError: It exited with another code than 0.
        subprocess.TimeoutExpired: It did not end in time, and was killed.
    """
    words = [str(word) for word in command]
    done = subprocess.run(
        words,
        input=stdin,
        env={**os.environ, **(env or {})},
        timeout=timeout_s,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CommandError(words[0].rsplit("/", 1)[-1], done.returncode, done.stdout + done.stderr)
    return done.stdout


def attempt(*command: object) -> bool:
    """Run a command that cleans up: it may find nothing to do. True when it exited 0."""
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0
