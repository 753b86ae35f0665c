"""
What learns: the drafter, its optimizer and what it shares with the policy. Synchronous, and used by one thread.

The trained weights wander; `average` follows them and is what is scored, published and merged.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor

from tlt_common.domain.ids import DrafterVersion
from tlt_common.errors import WeightsError
from tlt_trainer.drafter.loss import Batch, unrolled_loss
from tlt_trainer.drafter.merge import merged, share_of
from tlt_trainer.drafter.model import Drafter
from tlt_trainer.drafter.optimizer import DrafterOptimizer, average_weight, rate
from tlt_trainer.drafter.shape import DrafterShape
from tlt_trainer.policy import SharedWeights
from tlt_trainer.score import Tally

STEP_TOKENS = 256
"""Least tokens of an optimizer step. With batches of 512 at most, a step has about 460. On the demo's model, expected
tokens per round of a chain of 3 after 20 k and 160 k tokens: 2.14 and 3.37; with at least 384, 2.00 and 3.40; with
batches of 256 at most, 2.28 and 3.36 at four fifths of the speed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What made these weights, over restarts and by all trainers whose work is in them."""

    steps: int = 0
    tokens: int = 0
    base_version: DrafterVersion = DrafterVersion(0)
    """The published drafter they come from; 0: none, from scratch."""
    base_steps: int = 0
    base_tokens: int = 0

    @property
    def own_steps(self) -> int:
        """Steps made here since the base."""
        return self.steps - self.base_steps

    @property
    def own_tokens(self) -> int:
        """Tokens trained on here since the base."""
        return self.tokens - self.base_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A drafter of the fleet."""

    version: DrafterVersion
    weights: Mapping[str, Tensor]
    steps: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything needed to go on: copies on the CPU."""

    counters: Counters
    weights: Mapping[str, Tensor]
    average: Mapping[str, Tensor]
    base: Mapping[str, Tensor]
    optimizer: Mapping[str, Tensor]


class Learner:
    """A drafter in training."""

    def __init__(self, shape: DrafterShape, device: torch.device) -> None:
        self.shape = shape
        self.device = device
        self.counters = Counters()
        self._drafter = Drafter(shape).to(device)
        self._average = Drafter(shape).to(device).requires_grad_(requires_grad=False)
        self._base = _copied(self._drafter)
        self._optimizer = DrafterOptimizer(self._drafter)
        self._shared: SharedWeights | None = None
        self._pending_tokens = 0

    def share(self, shared: SharedWeights) -> None:
        """Use this embedding and head from now on. Needed before anything below."""
        self._shared = shared

    def micro_step(self, batch: Batch) -> float:
        """
        Learn from one batch and return its loss; the optimizer steps when STEP_TOKENS have gathered.

        Raises:
            WeightsError: The loss is not finite: states or weights are broken. Nothing was changed.
        """
        with self._autocast():
            scores = unrolled_loss(self._drafter, *self._frozen(), batch)
        loss = float(scores.loss.detach())
        if not loss < float("inf"):  # also false for NaN
            raise WeightsError(f"the loss is {loss}: hidden states or weights are broken")
        (scores.loss * (batch.tokens / STEP_TOKENS)).backward()  # type: ignore[no-untyped-call]
        self._pending_tokens += batch.tokens
        if self._pending_tokens >= STEP_TOKENS:
            self._step()
        return loss

    def tally(self, batch: Batch, candidate: Drafter | None = None) -> Tally:
        """Count what the averaged weights, or a candidate, guess of a batch that is kept out of training."""
        with torch.no_grad(), self._autocast():
            scores = unrolled_loss(candidate or self._average, *self._frozen(), batch)
        return Tally(hits=tuple(scores.hits.tolist()), counts=tuple(scores.counts.tolist()))

    def candidate(self, weights: Mapping[str, Tensor]) -> Drafter:
        """Make a drafter of other weights, to be compared with the own one."""
        return _loaded(Drafter(self.shape).to(self.device), weights)

    def weights(self) -> dict[str, Tensor]:
        """Return copies of the averaged weights, on the CPU."""
        return _copied(self._average)

    def base(self) -> Mapping[str, Tensor]:
        """Return the published weights these come from; those of the start if none."""
        return self._base

    def merged_with(self, newest: Published) -> dict[str, Tensor]:
        """Return the mean of the newest drafter and the own one, by the tokens of each since they were equal."""
        own = self.counters
        share = share_of(own.own_tokens, newest.tokens - own.base_tokens)
        return merged(self.weights(), newest.weights, share)

    def follow(self, newest: Published, adopt: Mapping[str, Tensor]) -> None:
        """Make the newest drafter the base and go on from `adopt`: its weights, a merge with the own, or the own."""
        own = self.counters
        ahead = 0 if adopt is newest.weights else 1
        self._base = dict(newest.weights)
        self.counters = Counters(
            steps=newest.steps + ahead * own.own_steps,
            tokens=newest.tokens + ahead * own.own_tokens,
            base_version=newest.version,
            base_steps=newest.steps,
            base_tokens=newest.tokens,
        )
        _loaded(self._drafter, adopt)
        _loaded(self._average, adopt)

    def settle(self, version: DrafterVersion, weights: Mapping[str, Tensor]) -> None:
        """Note that the own weights were published as they are now; training goes on undisturbed."""
        self._base = dict(weights)
        own = self.counters
        self.counters = replace(own, base_version=version, base_steps=own.steps, base_tokens=own.tokens)

    def stand_on(self, version: DrafterVersion) -> None:
        """Count as made from that version, without taking anything from it: it is gone or broken."""
        self.counters = replace(self.counters, base_version=version)

    def snapshot(self) -> Snapshot:
        """Copy everything, so that it can be written while training goes on."""
        return Snapshot(
            counters=self.counters,
            weights=_copied(self._drafter),
            average=self.weights(),
            base=self._base,  # replaced as a whole, never written to
            optimizer={name: tensor.to("cpu", copy=True) for name, tensor in self._optimizer.state().items()},
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot of a learner of the same shape."""
        _loaded(self._drafter, snapshot.weights)
        _loaded(self._average, snapshot.average)
        self._base = dict(snapshot.base)
        self._optimizer.load(snapshot.optimizer)
        self.counters = snapshot.counters

    def _step(self) -> None:
        done = self.counters
        self._optimizer.step(rate(done.steps, done.tokens))
        self.counters = replace(done, steps=done.steps + 1, tokens=done.tokens + self._pending_tokens)
        self._pending_tokens = 0
        share = average_weight(done.steps)
        with torch.no_grad():
            for mean, newest in zip(self._average.parameters(), self._drafter.parameters(), strict=True):
                mean.lerp_(newest, share)

    def _frozen(self) -> tuple[Tensor, Tensor]:
        if self._shared is None:
            raise WeightsError("no policy was shared with the drafter yet")
        return self._shared.embedding, self._shared.head

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16)


def _copied(drafter: Drafter) -> dict[str, Tensor]:
    return {name: parameter.detach().to("cpu", copy=True) for name, parameter in drafter.named_parameters()}


def _loaded(drafter: Drafter, weights: Mapping[str, Tensor]) -> Drafter:
    drafter.load_state_dict(cast("dict[str, Tensor]", weights))
    return drafter
