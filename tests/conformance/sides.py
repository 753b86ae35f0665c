"""One of the servers that are compared, and what it answers."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import httpx

TEXT = "use 6 4 for 24 :"
"""A prompt in the words of the model, which solves it greedily with 48 tokens, the end token included."""
IDS = (1, 125, 10, 8, 143, 28, 109)
"""Its tokens."""
UNSOLVED = "use 4 7 9 12 for 24 :"
"""A prompt which the model tries to solve for hundreds of tokens, of few of which it is certain."""
OTHER_IDS = (1, 125, 10, 8, 143, 14, 109)
PERIOD = 106
"""The full stop, which is the sixth token of the greedy answer."""
TOKENS = 24
GREEDY: Mapping[str, Any] = {"max_new_tokens": TOKENS, "temperature": 0}


class Answer(NamedTuple):
    """What a server answered: its status, and JSON, text, or the list of a stream's events."""

    status: int
    content: Any

    @property
    def refused_field(self) -> str | None:
        """Name of the field for which the call was refused; None if it was not, or says no name."""
        if self.status < httpx.codes.BAD_REQUEST or not isinstance(self.content, dict):
            return None
        error = self.content.get("error")
        return error.get("param") if isinstance(error, dict) else None


@dataclass(frozen=True, slots=True)
class Side:
    """A server that is compared."""

    url: str
    client: httpx.Client

    def get(self, path: str) -> Answer:
        return _answer(self.client.get(path))

    def post(self, path: str, body: Any) -> Answer:
        return _answer(self.client.post(path, json=body))

    def generate(self, **body: Any) -> Answer:
        """Call /generate, greedily and with `TEXT` unless the body says otherwise."""
        return self.post("/generate", generate_body(body))

    def complete(self, **body: Any) -> Answer:
        """Call /v1/completions, greedily and with `TEXT` unless the body says otherwise."""
        return self.post("/v1/completions", completion_body(body))


@dataclass(frozen=True, slots=True)
class Sides:
    """Both servers."""

    stock: Side
    suite: Side

    def both(self, path: str, body: Any) -> tuple[Answer, Answer]:
        """Return the answers of SGLang's server and of the suite's to one request."""
        return self.stock.post(path, body), self.suite.post(path, body)


def generate_body(change: Mapping[str, Any]) -> dict[str, Any]:
    """Return a body of /generate; a field of None in `change` is left out, and sampling parameters are merged."""
    sampling = change.get("sampling_params")
    body = {"text": TEXT, **change}
    body["sampling_params"] = {**GREEDY, **sampling} if isinstance(sampling, dict) else sampling or dict(GREEDY)
    return {name: value for name, value in body.items() if value is not None}


def completion_body(change: Mapping[str, Any]) -> dict[str, Any]:
    """Return a body of /v1/completions; a field of None in `change` is left out."""
    body = {"prompt": TEXT, "max_tokens": TOKENS, "temperature": 0, **change}
    return {name: value for name, value in body.items() if value is not None}


def _answer(found: httpx.Response) -> Answer:
    kind = found.headers.get("content-type", "").partition(";")[0]
    if kind == "text/event-stream":
        return Answer(found.status_code, _events(found.text))
    return Answer(found.status_code, found.json() if kind == "application/json" and found.content else found.text)


def _events(text: str) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]
