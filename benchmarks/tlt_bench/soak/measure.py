"""Memory while responses and stray connections come and go, in turn, until time is up."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack

import aiohttp

from tlt_bench.engines.bench_engine import log
from tlt_bench.result import Result
from tlt_bench.scratch import scratch
from tlt_bench.served import ServedProcess
from tlt_bench.soak.callers import Callers
from tlt_bench.soak.knocking import knock
from tlt_bench.soak.services import LoadedServices, services
from tlt_bench.soak.slope import Slope, slope_of
from tlt_common.client import Client

RESPONSES_SHARE = 0.7
"""Share of the time for responses; the rest is divided among the ports."""
FILLED = 80_000
"""Responses to as many prompts per gateway, before memory is compared: it remembers 65,536 of them."""
FILL_SHARE = 0.5
"""Of the time for responses, at most, in which they are."""
AT_ONCE = 6
"""Callers of each gateway at a time."""
KNOCKS_AT_ONCE = 16
SETTLED = 0.25
"""Share of the connections of a port before its memory is compared."""
LOOK_S = 0.5
MILLION, THOUSAND = 1e6, 1e3


def measure(minutes: float) -> Result:
    """
    Load all services for a number of minutes.

    Raises:
        UnavailableError: A service did not start, or ended by itself.
        TltError: A response that no caller gave up is lost or wrong.
    """
    with scratch() as directory, services(directory) as running:
        return asyncio.run(_measured(running, 60.0 * minutes))


async def _measured(running: LoadedServices, seconds: float) -> Result:
    figures: dict[str, float] = {}
    spread: dict[str, tuple[float, float]] = {}

    def add(name: str, slope: Slope) -> None:
        figures[name], spread[name] = slope.mib, (slope.low, slope.high)
        log(f"{name}: {slope.mib:.2f} MiB [{slope.low:.2f}, {slope.high:.2f}]")

    over, acts, courses, filled = await _responses(running, RESPONSES_SHARE * seconds)
    for service in running.all:
        course = courses[service.name]
        add(f"mib_per_million_responses_{service.name}", slope_of(course, per=MILLION))
        figures[f"rss_mib_{service.name}"] = course[-1][1]
    for name, (service, address, protocol) in running.doors.items():
        within_s = (1.0 - RESPONSES_SHARE) * seconds / len(running.doors)
        knocked = await _connections(service, address, protocol, within_s)
        figures[f"connections_{name}"] = knocked[-1][0]
        add(f"mib_per_thousand_connections_{name}", slope_of(knocked, per=THOUSAND))
    for service in running.all:
        service.require_alive()
    figures |= {"responses": float(over.total()), "filled_with": float(filled)}
    figures |= {f"responses_{how}": float(number) for how, number in over.items()}
    figures |= {f"callers_{what}": number / acts.total() for what, number in acts.items()}
    return Result(
        name="load_soak",
        figures=figures,
        spread=spread,
        repeats=1,
        notes={
            "mib_per_million_responses": "slope of resident memory and its 95 % interval, once what is remembered is "
            "full, of a gateway without a coordinator (alone), of one with it (fleet), and of the coordinator",
            "mib_per_thousand_connections": "the same for connections that ask, break off, say nothing or are reset",
            "responses": "of both gateways; they finish, are aborted by id, time out, or their callers disconnect. A "
            "response that nobody gave up and that is lost or not the one to its prompt is an error of the benchmark",
            "callers": "shares of the callers after that: they wait, abort one response or all to a prompt, time out, "
            "disconnect from single responses or batches, or ask over HTTP and mostly disconnect",
            "filled_with": "responses of a gateway before its memory was compared",
        },
    )


async def _responses(
    running: LoadedServices, seconds: float
) -> tuple[Counter[str], Counter[str], dict[str, list[tuple[float, float]]], int]:
    """
    Return the outcomes of responses, the callers' actions, memory over the number of responses by service, and the
    number of responses when memory was first sampled.
    """
    courses: dict[str, list[tuple[float, float]]] = {service.name: [] for service in running.all}
    began_s, filled = time.monotonic(), 0
    async with AsyncExitStack() as opened:
        session = await opened.enter_async_context(aiohttp.ClientSession())
        callers = [
            Callers(
                await opened.enter_async_context(Client(gateway.ports["grpc"], patience_s=0)),
                f"http://{gateway.ports['rollout_http']}",
                session,
                seed=place + 1,
            )
            for place, gateway in enumerate(running.gateways)
        ]

        def left_s(share: float) -> float:
            return share * seconds - (time.monotonic() - began_s)

        def count() -> float:
            return float(sum(each.responses for each in callers))

        def look() -> None:
            for service in running.all:
                courses[service.name].append((count(), service.rss_mib))

        await _at_once(
            callers, Callers.fill, lambda each: each.responses < FILLED and left_s(FILL_SHARE) > 0, running.all
        )
        filled = min(each.responses for each in callers)
        log(f"{filled} responses of each gateway after {time.monotonic() - began_s:.0f} s")
        await _at_once(
            callers,
            Callers.one,
            lambda _: left_s(1.0) > 0,
            running.all,
            look=look,
            settle_s=0.1 * seconds,
        )
    over = sum((each.over for each in callers), Counter[str]())
    log(f"{over.total()} responses: {dict(over)}")
    return over, sum((each.acts for each in callers), Counter[str]()), courses, filled


async def _at_once(
    callers: Sequence[Callers],
    act: Callable[[Callers], Awaitable[None]],
    goes_on: Callable[[Callers], bool],
    watched: Sequence[ServedProcess],
    *,
    look: Callable[[], object] = lambda: None,
    settle_s: float = 0.0,
) -> None:
    """
    Let callers act concurrently at each gateway, and sample memory meanwhile.

    Raises:
        UnavailableError: A service has ended by itself.
        TltError: A response is lost or wrong.
    """

    async def lane(each: Callers) -> None:
        while goes_on(each):
            await act(each)

    def require_alive() -> None:
        for service in watched:
            service.require_alive()

    try:
        async with asyncio.TaskGroup() as lanes:
            running = [lanes.create_task(lane(each)) for each in callers for _ in range(AT_ONCE)]
            began_s = time.monotonic()
            while not all(each.done() for each in running):
                await asyncio.sleep(LOOK_S)
                require_alive()
                if time.monotonic() - began_s > settle_s:
                    look()
    except ExceptionGroup as errors:
        require_alive()  # the cause, if a service has ended: its responses are lost
        raise errors.exceptions[0] from None


async def _connections(
    service: ServedProcess, address: str, protocol: str, within_s: float
) -> list[tuple[float, float]]:
    """Return memory over the number of connections to a port, once it has settled."""
    chance, course, until_s = random.Random(1), list[tuple[float, float]](), time.monotonic() + within_s
    done = 0
    while time.monotonic() < until_s:
        await asyncio.gather(*(knock(address, protocol, chance) for _ in range(KNOCKS_AT_ONCE)))
        done += KNOCKS_AT_ONCE
        course.append((float(done), service.rss_mib))
    return course[int(SETTLED * len(course)) :]
