"""Sends an input and judges the answer."""

import json
import select
import socket
from http.client import HTTPException, HTTPResponse
from typing import Any

import grpc

from tests.hostile.case import Call, Case
from tests.hostile.log import Log, wrong_with_log
from tests.hostile.targets import Target
from tlt_common.wire.rollout import SERVICE_NAME

ANSWER_S = 60.0
"""An input that takes longer counts as answered wrongly."""
MAX_ANSWER = 4096
"""Bytes of an answer that refuses an input: it may quote the input, but not repeat it."""


def wrong_with(target: Target | None, case: Case | Call | Log) -> str:
    """Send an input; return what is wrong with the answer, or nothing. Logs need no target."""
    if isinstance(case, Log):
        return wrong_with_log(case)
    assert target is not None
    found = _called(target, case) if isinstance(case, Call) else _requested(target, case)
    return found or ("" if target.alive else "the process ended")


def _requested(target: Target, case: Case) -> str:
    found = _exchanged(target, case)
    if not case.afterwards:
        return found
    undone = _exchanged(target, Case(name=f"after {case.name}", path=case.afterwards, status=200))
    return found or undone


def _exchanged(target: Target, case: Case) -> str:
    host, _, port = target.http.rpartition(":")
    sockets = [socket.create_connection((host, int(port)), timeout=ANSWER_S) for _ in range(case.times)]
    try:
        content = case.request()
        for connection in sockets:
            _send(connection, content)
        return next(filter(None, (_judged(connection, case) for connection in sockets)), "")
    except TimeoutError:
        return f"no answer within {ANSWER_S:g} s"
    finally:
        for connection in sockets:
            connection.close()


def _send(connection: socket.socket, content: bytes) -> None:
    """Send until an answer arrives: servers may refuse a request before they have read all of it."""
    try:
        for begin in range(0, len(content), 2**16):
            if begin and select.select([connection], [], [], 0)[0]:
                return
            connection.sendall(content[begin : begin + 2**16])
    except ConnectionError:
        return


def _judged(connection: socket.socket, case: Case) -> str:
    answer = HTTPResponse(connection, method=case.method)
    try:
        answer.begin()
        content = answer.read()
    except (HTTPException, ConnectionError) as error:
        return "" if 0 in case.statuses else f"no answer: {error!r}"
    status, text = answer.status, content.decode(errors="replace")
    if status not in case.statuses:
        return f"status {status}: {text[:300]}"
    if case.within not in text or (case.without and case.without in text):
        return f"content: {text[:300]}"
    if missing := [name for name in case.answer_headers if answer.headers[name] is None]:
        return f"without header {missing[0]}"
    return _judged_refusal(case, status, content) if status >= 400 else ""


def _judged_refusal(case: Case, status: int, content: bytes) -> str:
    """Return what is wrong with the body of a refusal."""
    if case.method == "HEAD":
        return ""
    if len(content) > MAX_ANSWER:
        return f"a refusal of {len(content)} bytes"
    try:
        error: dict[str, Any] = json.loads(content)["error"]
    except (ValueError, LookupError, TypeError):
        return f"no JSON: {content[:200]!r}"
    if error.get("code") != status or not error.get("type") or not error.get("message"):
        return f"incomplete: {error}"
    return "" if str(error.get("param", "")).startswith(case.param) else f"param is {error.get('param')!r}: {error}"


def _called(target: Target, call: Call) -> str:
    with grpc.insecure_channel(target.grpc) as channel:
        method: Any = channel.unary_stream(f"/{SERVICE_NAME}/{call.method}")
        try:
            list(method(call.message, metadata=call.metadata, timeout=ANSWER_S))
        except grpc.RpcError as error:
            code, details = error.code().name, error.details() or ""
            metadata: Any = error.trailing_metadata() or ()
            trailing = dict(metadata)
        else:
            code, details, trailing = "OK", "", {}
    if code != call.code:
        return f"code {code}: {details[:300]}"
    if len(details) > MAX_ANSWER:
        return f"a refusal of {len(details)} characters"
    field = str(trailing.get("tlt-field", ""))
    return "" if field.startswith(call.param) else f"field is {field!r}: {details[:300]}"
