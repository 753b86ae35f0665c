"""
Learner: the drafter, its optimizer, and the tensors it shares with the policy. Synchronous; used by one thread.

The trained weights fluctuate; `average` is their running average, which is scored, published and merged.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor

from tlt_common.domain.ids import DrafterVersion
from tlt_common.drafter.format import DrafterFormat
from tlt_common.drafter.tensors import HEAD
from tlt_common.errors import WeightsError
from tlt_trainer.drafter.draft_model import DraftModel
from tlt_trainer.drafter.eagle3 import Eagle3Drafter
from tlt_trainer.drafter.kinds import drafter_of
from tlt_trainer.drafter.loss import Pack, unrolled_loss
from tlt_trainer.drafter.merge import merged, share_of
from tlt_trainer.drafter.optimizer import DrafterOptimizer, average_weight, rate
from tlt_trainer.score import ScoreTally
from tlt_trainer.shared_weights import SharedWeights

SCORED_DRAFTS = 3
"""Drafts of the chain by which drafters are compared, at least."""
STEP_TOKENS = 256
"""Minimum tokens of an optimizer step. With batches of at most 512 tokens, a step has about 460. On the demo's model,
expected tokens per round of a chain of 3 after 20 k and 160 k tokens: 2.14 and 3.37; with a minimum of 384, 2.00 and
3.40; with batches of at most 256, 2.28 and 3.36 at four fifths of the speed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Training that went into these weights, over restarts and by all trainers whose work they contain."""

    steps: int = 0
    tokens: int = 0
    base_version: DrafterVersion = DrafterVersion(0)
    """The published drafter they are based on; 0: none, from scratch."""
    base_steps: int = 0
    base_tokens: int = 0

    @property
    def own_steps(self) -> int:
        """Steps made by this trainer since the base."""
        return self.steps - self.base_steps

    @property
    def own_tokens(self) -> int:
        """Tokens trained on by this trainer since the base."""
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
    """Everything needed to continue training: copies on the CPU."""

    counters: Counters
    weights: Mapping[str, Tensor]
    average: Mapping[str, Tensor]
    base: Mapping[str, Tensor]
    """Empty if the base could not be read."""
    optimizer: Mapping[str, Tensor]


class Learner:
    """
    A drafter in training.

    Args:
        form: Its format.
        device: Device to train on.
        passes: Passes of training; None: as many as its kind is trained with.
        regression_weight: Weight of the states in the loss; None: as its kind is trained.
        drafts: Passes of scoring: drafts of a chain. None: as many as in training, at least three.
    """

    def __init__(
        self,
        form: DrafterFormat,
        device: torch.device,
        *,
        passes: int | None = None,
        regression_weight: float | None = None,
        drafts: int | None = None,
    ) -> None:
        self.form = form
        self.device = device
        self._passes, self._regression_weight = passes, regression_weight
        self.counters = Counters()
        self._drafter = drafter_of(form).to(device)
        self._average = drafter_of(form).to(device).requires_grad_(requires_grad=False)
        self._drafts = drafts or max(SCORED_DRAFTS, passes or self._drafter.default_passes)
        self._base = _copied(self._drafter)
        self._optimizer = DrafterOptimizer(self._drafter)
        self._shared: SharedWeights | None = None
        self._pending_tokens = 0

    def share(self, shared: SharedWeights | None) -> None:
        """Use this embedding and head from now on; None frees them. Must be called before the methods below."""
        self._shared = shared

    @property
    def tokens(self) -> Tensor | None:
        """The draft tokens of an EAGLE-3 drafter, (D,); -1: none has been chosen. None: EAGLE has no choice."""
        return self._drafter.tokens if isinstance(self._drafter, Eagle3Drafter) else None

    def choose(self, tokens_D: Tensor) -> None:
        """
        Make these tokens of the policy the draft tokens of an EAGLE-3 drafter, ascending. Does nothing for EAGLE.

        What was learned of tokens that stay is kept; the others' rows of the head begin as the policy's.
        """
        _, head_VH = self._frozen()
        if (before_D := self.tokens) is None:
            return
        for drafter in (self._drafter, self._average):
            if isinstance(drafter, Eagle3Drafter):
                drafter.choose(tokens_D, head_VH)
        self._optimizer.rearrange(HEAD, before_D, tokens_D)

    def micro_step(self, pack: Pack) -> float:
        """
        Learn from one pack and return its loss per scored entry; the optimizer steps once STEP_TOKENS have accumulated.

        The gradient of a step is the sum over its samples, however they are packed.

        Raises:
            WeightsError: The loss is not finite: states or weights are broken. Nothing was changed.
        """
        with self._autocast():
            scores = unrolled_loss(
                self._drafter, *self._chosen(), pack, passes=self._passes, regression_weight=self._regression_weight
            )
        loss = float(scores.loss.detach() / max(1, len(pack.scored)))
        if not loss < float("inf"):  # also false for NaN
            raise WeightsError(f"the loss is {loss}: hidden states or weights are broken")
        (scores.loss / STEP_TOKENS).backward()  # type: ignore[no-untyped-call]
        self._pending_tokens += pack.tokens
        if self._pending_tokens >= STEP_TOKENS:
            self._step()
        return loss

    def discard(self) -> None:
        """Forget the gradients of an optimizer step that was not completed."""
        self._optimizer.discard()
        self._pending_tokens = 0

    def tally(self, pack: Pack, candidate: DraftModel | None = None) -> ScoreTally:
        """Count the correct predictions of the averaged weights, or of a candidate, on a held-out pack."""
        with torch.no_grad(), self._autocast():
            scores = unrolled_loss(candidate or self._average, *self._chosen(), pack, passes=self._drafts)
        rows = torch.stack((scores.hits, scores.accepted, scores.counts)).tolist()  # one copy from the device
        return ScoreTally(hits=tuple(rows[0]), accepted=tuple(rows[1]), counts=tuple(rows[2]))

    def candidate(self, weights: Mapping[str, Tensor]) -> DraftModel:
        """Return a drafter with other weights, to compare with the own one."""
        return _loaded(drafter_of(self.form).to(self.device), weights)

    def weights(self) -> dict[str, Tensor]:
        """Return copies of the averaged weights, on the CPU."""
        return _copied(self._average)

    def base(self) -> Mapping[str, Tensor] | None:
        """Return the fleet's drafter of `base_version`; None: there is none, or it could never be read."""
        return self._base if self.counters.base_version and self._base else None

    def merged_with(self, newest: Published) -> dict[str, Tensor]:
        """Return the mean of the newest and the own weights, weighted by the tokens of each since they were equal."""
        own = self.counters
        share = share_of(own.own_tokens, newest.tokens - own.base_tokens)
        return merged(self.weights(), newest.weights, share)

    def follow(self, newest: Published, adopt: Mapping[str, Tensor]) -> None:
        """Make the newest drafter the base and continue from `adopt`: its weights, a merge with the own, or the own."""
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
        """Record that the own weights were published as they are now; training continues unchanged."""
        self._base = dict(weights)
        own = self.counters
        self.counters = replace(own, base_version=version, base_steps=own.steps, base_tokens=own.tokens)

    def stand_on(self, version: DrafterVersion) -> None:
        """Set the base version without adopting its weights, which are missing or broken."""
        self._base = {}
        self.counters = replace(self.counters, base_version=version)

    def snapshot(self) -> Snapshot:
        """Copy everything, so that it can be written while training continues."""
        return Snapshot(
            counters=self.counters,
            weights=_copied(self._drafter),
            average=self.weights(),
            base=self._base,  # replaced as a whole, never modified
            optimizer={name: tensor.to("cpu", copy=True) for name, tensor in self._optimizer.state().items()},
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Continue from a snapshot of a learner of the same shape."""
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
            raise WeightsError("the policy's embedding and head are not loaded yet")
        return self._shared.embedding, self._shared.head

    def _chosen(self) -> tuple[Tensor, Tensor]:
        if (tokens_D := self.tokens) is not None and int(tokens_D[0]) < 0:
            raise WeightsError("the drafter's tokens are not chosen yet")
        return self._frozen()

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16)


def _copied(drafter: DraftModel) -> dict[str, Tensor]:
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in drafter.state_dict().items()}


def _loaded(drafter: DraftModel, weights: Mapping[str, Tensor]) -> DraftModel:
    drafter.load_state_dict(cast("dict[str, Tensor]", weights))
    return drafter
