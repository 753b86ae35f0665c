"""Kills processes of a run whose event loop is blocked, so that their supervisors restart them."""

import asyncio
import os
import select
import signal
import ssl
from collections.abc import Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Never

from tlt_common.processes.core_waits import CoreWaits, WaitRecord
from tlt_common.rpc.addresses import PID, split
from tlt_common.schedule_clock import ScheduleClock
from tlt_common.telemetry.log import get_logger
from tlt_local.supervision import guard
from tlt_local.supervision.home import Home

log = get_logger(__name__)

PROBE_EVERY_S = 1.0
ANSWER_S = 5.0
"""Timeout of one probe."""
SILENT_S = 1.5 * PROBE_EVERY_S
"""Silence after which is noted how long a process has waited for cores: reading that for each answer would cost more
than the probe."""


@dataclass(slots=True, kw_only=True)
class _Watched:
    """A watched process, which may exit at any time."""

    pid: int
    handle: int
    """A pidfd, which never refers to another process."""
    metrics: str
    answered_at_s: float
    """Time of the last answer, on the prober's clock."""
    waits: WaitRecord | None = None
    """Time that its threads have waited for a core since it was found silent."""
    why: str = ""
    """Why the last probe failed; empty if it succeeded."""
    fails: bool = False
    """Whether it reported itself that its event loop is blocked."""

    @classmethod
    def of(cls, addresses: Mapping[str, str], mark: str, now_s: float) -> "_Watched | None":
        """
        Return the process with these addresses, or None if it cannot be watched or has exited.

        Every process of the run has `mark` in its environment. A process without it has reused the id of one that
        exited.
        """
        if "metrics" not in addresses or PID not in addresses:
            return None
        pid = int(addresses[PID])
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return None
        if not _is_marked(pid, mark):
            os.close(handle)
            return None
        return cls(pid=pid, handle=handle, metrics=addresses["metrics"], answered_at_s=now_s)

    def answered(self, now_s: float) -> None:
        self.answered_at_s, self.waits, self.why, self.fails = now_s, None, "", False

    def look(self, now_s: float) -> None:
        """Record the time that its threads have waited for a core, if it is silent."""
        if self.waits is not None:
            self.waits.look(CoreWaits.of(self.pid), now_s)
        elif now_s - self.answered_at_s >= SILENT_S:
            self.waits = WaitRecord(CoreWaits.of(self.pid), now_s)

    @property
    def is_starved(self) -> bool:
        return self.waits is not None and self.waits.is_starved

    @property
    def has_exited(self) -> bool:
        return bool(select.select([self.handle], [], [], 0)[0])

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.handle, signal.SIGKILL)

    def close(self) -> None:
        os.close(self.handle)


class LivenessProber:
    """
    Probes /livez of every process that has written its addresses: services, workers and spot trainers.

    A process that reports a blocked loop or has not answered for `liveness_s` is killed with SIGKILL, the only signal
    that reaches a stopped process. Silence counts only while this process runs on schedule, and processes that wait for
    a core are spared.

    Args:
        tls: Whether the probes are encrypted. The certificate is not verified, since the port is local.
    """

    def __init__(self, home: Home, *, liveness_s: float, tls: bool) -> None:
        self._home = home
        self._mark = f"{guard.TOKEN_VARIABLE}={home.token}"
        self._liveness_s = liveness_s
        self._context = _unverified() if tls else None
        self._clock = ScheduleClock()
        self._watched: dict[str, _Watched] = {}

    async def run(self) -> Never:
        """Run until cancelled."""
        try:
            async with asyncio.TaskGroup() as parts:
                parts.create_task(self._judge(), name="judge")
                while True:
                    self._meet()
                    async with asyncio.TaskGroup() as probes:
                        for watched in tuple(self._watched.values()):
                            probes.create_task(self._probe(watched), name=f"probe {watched.pid}")
                    await asyncio.sleep(PROBE_EVERY_S)
        finally:
            for name in tuple(self._watched):
                self._watched.pop(name).close()

    def _meet(self) -> None:
        """Follow the address files: a restarted process writes its own, and one that ends removes it."""
        known = self._home.all_addresses()
        for name, watched in list(self._watched.items()):
            if watched.has_exited or known.get(name, {}).get(PID) != str(watched.pid):
                self._watched.pop(name).close()
        for name, addresses in known.items():
            if name not in self._watched and (met := _Watched.of(addresses, self._mark, self._clock.now_s)):
                self._watched[name] = met

    async def _probe(self, watched: _Watched) -> None:
        try:
            async with asyncio.timeout(ANSWER_S):
                status, text = await _livez(watched.metrics, self._context)
        except TimeoutError:
            watched.why = f"/livez did not answer within {ANSWER_S:g} s"
        except OSError as error:
            watched.why = f"/livez is unreachable: {error.strerror or error}"
        else:
            if status == b"200":
                watched.answered(self._clock.now_s)
            else:
                watched.why, watched.fails = text, True

    async def _judge(self) -> None:
        async with aclosing(self._clock.ticks()) as ticks:
            async for now_s in ticks:
                for name, watched in tuple(self._watched.items()):
                    silent_s = now_s - watched.answered_at_s
                    watched.look(now_s)
                    if not watched.fails:
                        if silent_s < self._liveness_s or not watched.why:
                            continue
                        if watched.is_starved:
                            watched.answered(now_s)
                            continue
                    log.error("process_hangs", process=name, pid=watched.pid, silent_s=silent_s, why=watched.why)
                    watched.kill()
                    watched.answered(now_s)


def _is_marked(pid: int, mark: str) -> bool:
    try:
        return mark.encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


async def _livez(address: str, context: ssl.SSLContext | None) -> tuple[bytes, str]:
    """Return status and body of /livez."""
    host, port = split(address)
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    try:
        writer.write(b"GET /livez HTTP/1.0\r\n\r\n")
        response = await reader.read()
    finally:
        writer.transport.abort()  # a peer that hangs would never complete the TLS shutdown
    head, _, body = response.partition(b"\r\n\r\n")
    return head.split(b" ", 2)[1] if b" " in head else b"", body.decode(errors="replace").strip()


def _unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
