"""What a gateway writes down. Pure."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from tlt_common.domain.response import FinishReason
from tlt_common.journal.fields import Count, JournalRecord, Name, Note, Positive, Seconds, Time
from tlt_common.journal.line import DroppedLine, Line, at_most


class StayEnd(StrEnum):
    """Why a request is no longer at a worker."""

    OVER = "over"
    """The response is over."""
    MOVED = "moved"
    """It was moved, with all its tokens."""
    LOST = "lost"
    """The worker was lost, or refused it."""


class RequestOutcome(StrEnum):
    """What became of a request."""

    FINISHED = "finished"
    FAILED = "failed"
    ABORTED = "aborted"
    STALE = "stale"
    """It may not continue with the weights that are served by now."""
    HUNG_UP = "hung_up"
    """Its client has left."""
    DRAINED = "drained"
    """The gateway was shut down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStay(JournalRecord):
    """A request at a worker."""

    worker: Name
    began: Time
    ended: Time
    tokens: Count
    """Tokens that it generated there."""
    drafter: Count
    """Version of the drafter when it began there."""
    end: StayEnd

    @model_validator(mode="after")
    def check(self) -> Self:
        at_most("began", self.began, "ended", self.ended)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseLine(Line):
    """A request that is over."""

    kind: Literal["response"] = "response"

    number: Positive
    """Of the request, at this gateway and in this run of it."""
    group: Name
    """The same for requests with the same prompt: samples of a group, and later epochs. Says nothing of the tokens."""
    outcome: RequestOutcome
    finish: FinishReason | None
    """Why the response ended; null: its client did not learn of an end."""
    prompt: Positive
    """Tokens of the prompt."""
    prefix: Count
    """Tokens of the response that came with the request."""
    tokens: Count
    """Tokens of the response, with those of the prefix."""
    cap: Positive
    """Tokens of the response at most."""
    cached: Count | None
    """Tokens of the prompt that the last worker had cached; null: it did not say."""
    arrived: Time
    first: Time | None
    """When the first token arrived."""
    rounds: Count | None
    """Verification rounds, and drafts that they accepted and verified; null: unknown, as of a response that broke
    off."""
    accepted: Count | None
    drafted: Count | None
    versions: tuple[Count, ...]
    """Versions of the policy that generated it, oldest first."""
    stays: tuple[WorkerStay, ...]
    """Where it was; empty if it never left the queue."""

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
    """A worker that a gateway uses, when it is first heard of and when anything of this changes."""

    kind: Literal["engine"] = "engine"

    worker: Name
    device: Note
    slots: Positive
    """Requests that run at a time."""
    context: Positive
    """Tokens of a prompt and its response at most."""
    kv_room: Count
    """Tokens of its KV cache; 0: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundsLine(Line):
    """
    Rounds of about a minute, of all workers with one device, by arm, batch size and versions.

    Every gateway hears of the rounds of all workers: of several gateways, take those of one.
    """

    kind: Literal["rounds"] = "rounds"

    device: Note
    arm: Name
    batch: Positive
    """Lower bound of the batch sizes: a power of two, and less than twice as much."""
    drafter: Count
    policy: Count
    rounds: Positive
    seconds: Seconds
    tokens: Count
    """Tokens generated, over all requests."""
    accepted: Count
    """Drafts among them."""
    drafted: Count
    """Drafts verified."""
    kv_tokens: Count
    """Tokens in the KV cache, summed over rounds; 0: not counted."""

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
    """Tokens of prompts, and of responses that arrived from elsewhere, that were computed."""
    seconds: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateLine(Line):
    """An update of the weights through this gateway."""

    kind: Literal["update"] = "update"

    version: Count
    began: Time
    done: bool
    """Whether workers switched to it; else it changed nothing."""
    workers: Count
    """How many did."""

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
