"""Server-sent events, in virtual time."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, MutableMapping
from contextlib import ExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import jsonschema
import pytest

from tests.unit.tlt_coordinator.scripted import BUSY, IDLE, Worker, running
from tests.unit.tlt_coordinator.serving import client_of
from tlt_common.errors import InvalidRequestError, OverloadedError, UnauthenticatedError
from tlt_coordinator.config import CoordinatorConfig
from tlt_coordinator.coordinator import Coordinator
from tlt_coordinator.http.event_feed import (
    EVERY_S,
    GROUPS,
    KEPT_EVENTS,
    LINGER_S,
    MAX_READERS,
    MAX_READERS_PER_TOKEN,
    MAX_ROWS,
    EventFeed,
)
from tlt_coordinator.http.event_stream import event_stream
from tlt_coordinator.http.streamed import STALLED_S

pytestmark = pytest.mark.looptime

CONFIG = CoordinatorConfig(lending=False, silence_s=1e3)


@dataclass
class Event:
    """A server-sent event, taken apart."""

    kind: str
    id: str
    data: dict[str, Any]

    @classmethod
    def of(cls, block: bytes) -> "Event":
        assert block.endswith(b"\n\n")
        lines = dict(line.split(": ", 1) for line in block.decode().strip().split("\n"))
        return cls(lines["event"], lines["id"], json.loads(lines["data"]))

    @property
    def workers(self) -> list[str]:
        return [row["worker_id"] for row in self.data["workers"]]


@dataclass
class Reader:
    """Reads the feed itself."""

    feed: EventFeed
    last_id: str = ""
    comments: int = 0
    times_s: list[float] = field(default_factory=list)

    async def events(self) -> AsyncGenerator[Event, None]:
        with self.feed.reading():
            async for block in self.feed.events(self.last_id):
                if block.startswith(b":"):
                    self.comments += 1
                    continue
                event = Event.of(block)
                self.last_id = event.id
                self.times_s.append(asyncio.get_running_loop().time())
                yield event

    async def read(self, count: int) -> list[Event]:
        found = list[Event]()
        async with aclosing(self.events()) as events:
            while len(found) < count and (event := await anext(events, None)) is not None:
                found.append(event)
        return found

    async def first(self) -> Event:
        (event,) = await self.read(1)
        return event


@asynccontextmanager
async def feeding() -> AsyncIterator[tuple[EventFeed, Coordinator]]:
    async with running(CONFIG) as coordinator, asyncio.TaskGroup() as tasks:
        feed = EventFeed(coordinator.observer)
        making = tasks.create_task(feed.run())
        yield feed, coordinator
        making.cancel()


async def test_what_changes_is_told_with_the_figures_and_nothing_twice() -> None:
    async with feeding() as (feed, coordinator):
        Worker.join(coordinator, "before")
        reader = Reader(feed)
        assert (await reader.first()).workers == []
        workers = [Worker.join(coordinator, name) for name in ("a", "b")]
        event = await reader.first()
        assert (event.workers, event.data["fleet"]["workers"]) == (["a", "b"], 3)
        workers[0].say(BUSY)
        event = await reader.first()
        assert event.workers == ["a"]
        assert event.data["workers"][0]["state"] == "rollout"
        assert (await reader.first()).workers == []


async def test_there_are_four_events_a_second_at_most_and_figures_once_a_second() -> None:
    async with feeding() as (feed, coordinator):
        worker = Worker.join(coordinator)
        reader = Reader(feed)

        async def flicker() -> None:
            for number in range(100):
                worker.say((IDLE, BUSY)[number % 2])
                await asyncio.sleep(0.05)

        flickering = asyncio.ensure_future(flicker())
        await reader.read(16)
        await flickering
        assert reader.times_s[-1] - reader.times_s[0] >= 15 * EVERY_S
        calm = Reader(feed)
        await calm.read(5)
        assert 3.0 <= calm.times_s[-1] - calm.times_s[1] <= 4.0


async def test_a_wave_is_told_in_several_events_without_losing_anybody() -> None:
    async with feeding() as (feed, coordinator):
        reader = Reader(feed)
        await reader.first()
        for number in range(2 * MAX_ROWS + 1):
            Worker.join(coordinator, f"w{number:04}")
        told = [event.workers for event in await reader.read(3)]
        assert [len(names) for names in told] == [MAX_ROWS, MAX_ROWS, 1]
        assert sorted(name for names in told for name in names) == [f"w{n:04}" for n in range(2 * MAX_ROWS + 1)]


async def test_a_reader_goes_on_where_it_was_cut_off() -> None:
    async with feeding() as (feed, coordinator):
        reader = Reader(feed)
        await reader.first()
        for name in ("a", "b"):
            Worker.join(coordinator, name)
            await asyncio.sleep(2 * EVERY_S)
        assert [event.workers for event in await reader.read(2)] == [["a"], ["b"]]


async def test_one_that_is_too_far_behind_is_told_to_read_all_again_and_goes_on() -> None:
    async with feeding() as (feed, coordinator):
        other, reader = Reader(feed), Reader(feed)
        await reader.first()
        await other.read(KEPT_EVENTS + 3)
        resync, event = await reader.read(2)
        assert (resync.kind, resync.data["reason"]) == ("resync", "the reader fell behind")
        assert resync.data["since_unix_s"] == coordinator.observer.since_s
        assert event.kind == "changes"


async def test_one_that_comes_from_another_coordinator_is_told_to_read_all_again() -> None:
    async with feeding() as (first, _):
        reader = Reader(first)
        await reader.first()
    async with feeding() as (second, _):
        reader.feed = second
        resync, _ = await reader.read(2)
        assert (resync.kind, resync.data["reason"][:15]) == ("resync", "the coordinator")


async def test_readers_of_a_coordinator_that_ends_are_let_go() -> None:
    async with asyncio.TaskGroup() as tasks:
        async with feeding() as (feed, _):
            reading = tasks.create_task(Reader(feed).read(10**6))
            await asyncio.sleep(5.0)
            assert not reading.done()
        await reading


async def test_nothing_is_made_while_nobody_reads_and_a_late_reader_reads_all_again() -> None:
    async with feeding() as (feed, coordinator):
        reader = Reader(feed)
        await reader.first()
        await asyncio.sleep(2 * LINGER_S)
        number = feed._number
        Worker.join(coordinator)
        await asyncio.sleep(5.0)
        assert feed._number == number
        assert (await reader.read(1))[0].kind == "resync"


async def test_two_hundred_readers_cost_one_encoding() -> None:
    async with feeding() as (feed, _):
        readers = [Reader(feed) for _ in range(200)]
        made = feed._number
        async with asyncio.TaskGroup() as tasks:
            reading = [tasks.create_task(reader.read(8)) for reader in readers]
        events = [task.result() for task in reading]
        assert feed._number - made <= 9
        assert feed.readers == 0
        assert len({id(event) for event in feed._events}) == len(feed._events)
        assert all([event.id for event in each] == [event.id for event in events[0]] for each in events)


async def test_readers_are_woken_a_few_at_a_time() -> None:
    """Hundreds of answers in one pass of the event loop would hold it for as long as they take together."""
    woken, passes = dict[int, int](), 0

    async def count() -> None:
        nonlocal passes
        while True:
            passes += 1
            await asyncio.sleep(0)

    async def read(feed: EventFeed) -> None:
        async for event in Reader(feed).events():
            if event.workers == ["w0"]:
                woken[passes] = woken.get(passes, 0) + 1
                return

    async with feeding() as (feed, coordinator), asyncio.TaskGroup() as tasks:
        readers = [tasks.create_task(read(feed)) for _ in range(4 * GROUPS)]
        await asyncio.sleep(3.0)
        counting = asyncio.ensure_future(count())
        Worker.join(coordinator)
        await asyncio.wait(readers)
        counting.cancel()
    assert sum(woken.values()) == 4 * GROUPS
    assert max(woken.values()) <= 8


async def test_what_is_kept_for_readers_is_bounded() -> None:
    async with feeding() as (feed, _):
        await Reader(feed).read(2 * KEPT_EVENTS)
        assert len(feed._events) == KEPT_EVENTS


async def test_no_more_read_than_may() -> None:
    async with feeding() as (feed, _):
        with ExitStack() as stack:
            for _ in range(MAX_READERS):
                stack.enter_context(feed.reading())
            with pytest.raises(OverloadedError), feed.reading():
                pass
        assert feed.readers == 0


async def test_a_token_leaves_places_for_others() -> None:
    async with feeding() as (feed, _):
        with ExitStack() as stack:
            for _ in range(MAX_READERS_PER_TOKEN):
                stack.enter_context(feed.reading("script"))
            with pytest.raises(OverloadedError, match="use this token"), feed.reading("script"):
                pass
            with feed.reading("operator"):
                assert feed.readers == MAX_READERS_PER_TOKEN + 1
        assert feed.readers == 0


@pytest.mark.parametrize("last_id", ["1", "x-1", "0123456789-1", "01234567-", "01234567-" + "9" * 30, "01234567-1\n"])
async def test_an_id_that_is_none_is_refused(last_id: str) -> None:
    async with feeding() as (feed, _):
        with pytest.raises(InvalidRequestError, match="accepted: the id of an event"):
            await Reader(feed, last_id).read(1)


async def test_an_id_from_the_future_is_told_to_read_all_again() -> None:
    async with feeding() as (feed, _):
        reader = Reader(feed)
        await reader.first()
        reader.last_id = f"{reader.last_id.partition('-')[0]}-999999"
        assert (await reader.read(1))[0].kind == "resync"


@dataclass
class Browser:
    """The other end of a connection: takes what it is sent, or sleeps."""

    takes: bool = True
    body: bytes = b""
    status: int = 0
    over: bool = False
    hangs_up: asyncio.Event = field(default_factory=asyncio.Event)

    async def receive(self) -> MutableMapping[str, Any]:
        await self.hangs_up.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            return
        if not self.takes:
            await asyncio.Event().wait()
        self.body += message["body"]
        self.over = not message["more_body"]


async def test_a_browser_that_sleeps_is_let_go_and_the_feed_goes_on() -> None:
    async with feeding() as (feed, _):
        browser, scope = Browser(), dict[str, Any](type="http")
        answer = event_stream(feed, "", lambda: None)
        other = Reader(feed)
        async with asyncio.TaskGroup() as tasks:
            answering = tasks.create_task(answer(scope, browser.receive, browser.send))
            await asyncio.sleep(3.0)
            browser.takes = False
            await other.read(int(STALLED_S) + 3)
            assert answering.done()
        assert (browser.status, browser.over) == (200, False)
        assert scope["state"] == {"tlt_ended_with": "DEADLINE_EXCEEDED"}
        assert feed.readers == 0


async def test_a_reader_that_hangs_up_is_let_go() -> None:
    async with feeding() as (feed, _):
        browser = Browser()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(event_stream(feed, "", lambda: None)({"type": "http"}, browser.receive, browser.send))
            await asyncio.sleep(3.0)
            assert feed.readers == 1
            browser.hangs_up.set()
        assert feed.readers == 0


async def test_a_token_that_expires_ends_the_stream() -> None:
    expired = False

    def permit() -> None:
        if expired:
            raise UnauthenticatedError("the token has expired")

    async with feeding() as (feed, coordinator):
        browser, scope = Browser(), dict[str, Any](type="http")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(event_stream(feed, "", permit)(scope, browser.receive, browser.send))
            await asyncio.sleep(3.0)
            expired, before = True, browser.body
            Worker.join(coordinator, "secret")
        assert browser.over
        assert browser.body == before
        assert scope["state"] == {"tlt_ended_with": "UNAUTHENTICATED"}


async def test_the_data_are_as_the_api_says() -> None:
    async with running(CONFIG) as coordinator, client_of(coordinator) as client:
        described = (await client.get("/api/v1/openapi.json")).json()
    schema = described["paths"]["/api/v1/events"]["get"]["responses"]["200"]["content"]["text/event-stream"]["schema"]
    async with feeding() as (feed, coordinator):
        reader = Reader(feed)
        Worker.join(coordinator, status=replace(IDLE, problem="x"))
        await reader.first()
        Worker.join(coordinator, "other")
        reader.last_id = f"{reader.last_id.partition('-')[0]}-999999"
        for event in await reader.read(2):
            jsonschema.validate(event.data, schema | {"components": described["components"]})
