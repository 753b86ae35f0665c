"""Lines of a gateway's journal. Pure."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from tlt_common.domain.response import FinishReason
from tlt_common.journal.fields import Count, JournalRecord, Name, Note, Positive, Seconds, Time
from tlt_common.journal.line import DroppedLine, Line, at_most


class StayEnd(StrEnum):
    """Why a request left a worker."""

    OVER = "over"
    """The response ended."""
    MOVED = "moved"
    """The request was moved with all its tokens."""
    LOST = "lost"
    """The worker was lost or refused the request."""


class RequestOutcome(StrEnum):
    """Outcome of a request."""

    FINISHED = "finished"
    FAILED = "failed"
    ABORTED = "aborted"
    STALE = "stale"
    """It may not continue under the currently served weights."""
    HUNG_UP = "hung_up"
    """Its client disconnected."""
    DRAINED = "drained"
    """The gateway shut down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStay(JournalRecord):
    """A stay of a request at a worker."""

    worker: Name
    began: Time
    ended: Time
    tokens: Count
    """Number of tokens generated during the stay."""
    drafter: Count
    """Drafter version at the start of the stay."""
    end: StayEnd

    @model_validator(mode="after")
    def check(self) -> Self:
        at_most("began", self.began, "ended", self.ended)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseLine(Line):
    """A request that has ended."""

    kind: Literal["response"] = "response"

    number: Positive
    """Number of the request, unique within this gateway's run."""
    group: Name
    """Equal for requests with the same prompt: samples of a group, and later epochs. Does not reveal the tokens."""
    outcome: RequestOutcome
    finish: FinishReason | None
    """Why the response ended; null if its client did not learn of an end."""
    prompt: Positive
    """Tokens of the prompt."""
    prefix: Count
    """Tokens of the response that the request brought along."""
    tokens: Count
    """Tokens of the response, including the prefix."""
    cap: Positive
    """Maximum number of tokens of the response."""
    cached: Count | None
    """Tokens of the prompt that the last worker had cached; null if unknown."""
    arrived: Time
    first: Time | None
    """Arrival of the first token."""
    rounds: Count | None
    """
    Number of verification rounds, and of drafts accepted and verified in them; null if unknown, as for an interrupted
    response.
    """
    accepted: Count | None
    drafted: Count | None
    versions: tuple[Count, ...]
    """Policy versions that generated it, oldest first."""
    stays: tuple[WorkerStay, ...]
    """Its stays at workers; empty if it never left the queue."""

    @model_validator(mode="after")
    def check(self) -> Self:
        at_most("tokens", self.tokens, "cap", self.cap)
        at_most("prefix", self.prefix, "tokens", self.tokens)
        at_most("cached", self.cached or 0, "prompt", self.prompt)
        at_most("accepted", self.accepted or 0, "drafted", self.drafted or 0)
        at_most("stays.tokens", sum(stay.tokens for stay in self.stays), "tokens - prefix", self.tokens - self.prefix)
        before_s = self.arrived
        for place, stay in enumerate(self.stays):
            at_most("arrived" if place == 0 else f"stays[{place - 1}].ended", before_s, "the next began", stay.began)
            before_s = stay.ended
        at_most("stays.ended" if self.stays else "arrived", before_s, "at", self.at)
        if self.first is not None:
            at_most("arrived", self.arrived, "first", self.first)
            at_most("first", self.first, "at", self.at)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLine(Line):
    """A worker that a gateway uses: written when it is first seen and whenever a field changes."""

    kind: Literal["engine"] = "engine"

    worker: Name
    device: Note
    slots: Positive
    """Number of requests that it runs concurrently."""
    context: Positive
    """Maximum tokens of prompt and response together."""
    kv_room: Count
    """KV cache size in tokens; 0 if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundsLine(Line):
    """
    Rounds of about a minute, of all workers with one device, by arm, batch size and versions.

    Every gateway receives the rounds of all workers: with several gateways, use only one of them.
    """

    kind: Literal["rounds"] = "rounds"

    device: Note
    arm: Name
    batch: Positive
    """Lower bound of the batch sizes: a power of two. The upper bound is less than twice as large."""
    drafter: Count
    policy: Count
    rounds: Positive
    seconds: Seconds
    tokens: Count
    """Tokens generated, over all requests."""
    accepted: Count
    """Number of accepted drafts among them."""
    drafted: Count
    """Number of verified drafts."""
    kv_tokens: Count
    """Tokens in the KV cache, summed over rounds; 0 if not counted."""

    @model_validator(mode="after")
    def check(self) -> Self:
        at_most("accepted", self.accepted, "tokens", self.tokens)
        at_most("accepted", self.accepted, "drafted", self.drafted)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillLine(Line):
    """Prefill of about a minute, of all workers with one device."""

    kind: Literal["prefill"] = "prefill"

    device: Note
    tokens: Count
    """Prefilled tokens of prompts, and of responses begun elsewhere."""
    seconds: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateLine(Line):
    """An update of the weights through this gateway."""

    kind: Literal["update"] = "update"

    version: Count
    began: Time
    done: bool
    """Whether workers switched to it; otherwise it had no effect."""
    workers: Count
    """Number of workers that switched."""

    @model_validator(mode="after")
    def check(self) -> Self:
        at_most("began", self.began, "at", self.at)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseLine(Line):
    """A pause of generation began or ended."""

    kind: Literal["pause"] = "pause"

    paused: bool


GatewayLine: TypeAlias = Annotated[
    ResponseLine | EngineLine | RoundsLine | PrefillLine | UpdateLine | PauseLine | DroppedLine,
    Field(discriminator="kind"),
]
"""What a gateway writes."""
