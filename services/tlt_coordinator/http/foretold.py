"""When what runs will have ended, worked out at most once a second, for whoever asks."""

import asyncio
from dataclasses import dataclass

from tlt_coordinator.forecasts import RunningLengths
from tlt_coordinator.observer import Observer

LEVELS = (0.1, 0.5, 0.9)
FRESH_S = 1.0
"""Seconds for which an answer is given again."""
LOADS_AT_ONCE = 256
"""Loads of workers that are added up in one piece."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Foretold:
    """What is foretold."""

    at_s: float
    running: RunningLengths
    left_tokens: tuple[float, ...] | None
    """Tokens until all that runs has ended with the probabilities LEVELS; None: not known, or nothing runs."""
    end_s: tuple[float, ...] | None
    """The Unix times; None: how fast tokens come is not known either."""


class Foreteller:
    """Remembers the last answer."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._of: Observer | None = None
        self._last: Foretold | None = None

    async def foretell(self, observer: Observer) -> Foretold:
        """Return what is foretold by a coordinator, as of a second ago at most."""
        async with self._turn:
            last = self._last
            if last is None or self._of is not observer or observer.now() - last.at_s >= FRESH_S:
                last = await self._foretell(observer)
                self._of, self._last = observer, last
        return last

    @staticmethod
    async def _foretell(observer: Observer) -> Foretold:
        now_s, forecasts, do = observer.now(), observer.forecasts, observer.pieces.do
        loads, running = forecasts.loads(now_s), RunningLengths()

        def add(first: int) -> None:
            for load in loads[first : first + LOADS_AT_ONCE]:
                running.add(load)

        for first in range(0, len(loads), LOADS_AT_ONCE):
            await do(lambda first=first: add(first))  # type: ignore[misc] # bound now, not when it is called
        outlook = await do(lambda: forecasts.outlook(running)) if running.requests else None
        if outlook is None:
            return Foretold(at_s=now_s, running=running, left_tokens=None, end_s=None)
        left = [await do(lambda level=level: outlook.longest_left(level)) for level in LEVELS]  # type: ignore[misc]
        token_s = forecasts.token_s(running)
        return Foretold(
            at_s=now_s,
            running=running,
            left_tokens=tuple(left),
            end_s=tuple(now_s + tokens * token_s for tokens in left) if token_s is not None else None,
        )
