"""What a bench asks of an engine in another process, and what it hears: frozen values that travel as JSON lines."""

from typing import Literal

from tlt_common.config.base import Frozen
from tlt_common.domain.strategy import DEFAULT_ARMS


class Start(Frozen):
    """Begin with an engine. Paths are of this machine."""

    op: Literal["start"] = "start"
    stock: bool = False
    """SGLang as it comes, without speculation."""
    model: str
    drafter: str = ""
    arms: tuple[str, ...] = tuple(arm.name for arm in DEFAULT_ARMS)
    """By name; the stock engine has none."""
    max_running: int = 32
    context_length: int | None = None
    simulated_accept_length: float = 0.0
    """See `EngineOptions`."""
    trace: str = ""
    """File that rounds are written to; empty: none."""


class Force(Frozen):
    """Run these arms in turn; none gives the choice to the bandit."""

    op: Literal["force"] = "force"
    arms: tuple[str, ...]


class Renew(Frozen):
    """Load the drafter again, as if a trainer had published another: the bandit judges its arms anew."""

    op: Literal["renew"] = "renew"


class Turn(Frozen):
    """Go over to another arm while prompts are answered."""

    after_tokens: int
    """Of the first request."""
    arm: str


class Ask(Frozen):
    """Answer prompts, all at once."""

    op: Literal["ask"] = "ask"
    prompts: tuple[tuple[int, ...], ...]
    names: tuple[str, ...] = ()
    """Request ids; empty for any."""
    max_new_tokens: tuple[int, ...]
    """Of each; responses are as long as that."""
    temperature: float = 1.0
    turns: tuple[Turn, ...] = ()


class Count(Frozen):
    """Say what the scheduler has counted since the last time."""

    op: Literal["count"] = "count"


class Counted(Frozen):
    """Sums over the reports of an engine's rounds."""

    switches: int = 0
    recomputed_tokens: int = 0
    """Prompt and response tokens whose states the target computed again."""
    caught_up_tokens: int = 0
    """Tokens the drafter went over because it had missed them."""


class Told(Frozen):
    """
    What came back for an `Ask`. Times are in seconds since the first request was sent.

    The window is from the moment every request has its first token until the first one has all but one: a batch that
    decodes. Not to the end, since an engine that schedules while it computes tells each token a round later than it was
    made, except the last, which it tells together with the one before.
    """

    seconds: float
    window_began_s: float
    window_s: float
    window_cpu_s: float
    """Processor time in the window, of the engine's processes and of what drives them."""
    window_tokens: int
    window_rounds: int
    tokens: tuple[int, ...]
    """Of each response."""
    rounds: tuple[int, ...]
    """Of each response, prefill's included."""
    at_s: tuple[float, ...]
    """When the chunks of the first request came."""
    chunk_tokens: tuple[int, ...]
    """How many tokens each of them brought."""
    turned_s: tuple[float, ...] = ()
    """When each turn was asked for."""

    @property
    def rate(self) -> float:
        """Tokens per second in the window."""
        return self.window_tokens / self.window_s

    @property
    def round_s(self) -> float:
        """Of the window."""
        return self.window_s / max(1, self.window_rounds)

    @property
    def accept_length(self) -> float:
        """Tokens per request and round, without prefill and its token."""
        return (sum(self.tokens) - len(self.tokens)) / max(1, sum(self.rounds) - len(self.rounds))


class Done(Frozen):
    """An order that has no answer was carried out."""

    detail: str = ""


class Failed(Frozen):
    """An order failed."""

    error: str
