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
from tlt_common.errors import WeightsError
from tlt_trainer.drafter.loss import Pack, unrolled_loss
from tlt_trainer.drafter.merge import share_of
from tlt_trainer.drafter.model import Drafter
from tlt_trainer.drafter.optimizer import DrafterOptimizer, average_weight, rate
from tlt_trainer.score import ScoreTally
from tlt_trainer.shared_weights import SharedWeights

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
    """A drafter in training."""

    def __init__(self, form: DrafterFormat, device: torch.device) -> None:
        self.form = form
        self.device = device
        self.counters = Counters()
        self._drafter = Drafter(form).to(device)
        self._average = Drafter(form).to(device).requires_grad_(requires_grad=False)
        self._base = _copied(_tensors(self._drafter))
        self._optimizer = DrafterOptimizer(self._drafter)
        self._shared: SharedWeights | None = None
        self._pending_tokens = 0

    def share(self, shared: SharedWeights | None) -> None:
        """Use this embedding and head from now on; None frees them. Must be called before the methods below."""
        self._shared = shared

    @property
    def step_is_due(self) -> bool:
        """Whether STEP_TOKENS have accumulated since the last optimizer step."""
        return self._pending_tokens >= STEP_TOKENS

    def micro_step(self, pack: Pack, *, steps: bool = True) -> float:
        """
        Learn from one pack and return its loss per scored entry; the optimizer steps once STEP_TOKENS have accumulated.

        The gradient of a step is the sum over its samples, however they are packed.

        Args:
            pack: Samples.
            steps: False leaves a step that is due to the caller, who calls `step` for it.

        Raises:
            WeightsError: The loss is not finite: states or weights are broken. Nothing was changed.
        """
        with self._autocast():
            scores = unrolled_loss(self._drafter, *self._frozen(), pack)
        loss = float(scores.loss.detach() / max(1, len(pack.scored)))
        if not loss < float("inf"):  # also false for NaN
            raise WeightsError(f"the loss is {loss}: hidden states or weights are broken")
        (scores.loss / STEP_TOKENS).backward()  # type: ignore[no-untyped-call]
        self._pending_tokens += pack.tokens
        if steps and self.step_is_due:
            self.step()
        return loss

    def discard(self) -> None:
        """Forget the gradients of an optimizer step that was not completed."""
        self._optimizer.discard()
        self._pending_tokens = 0

    def tally(self, pack: Pack, candidate: Drafter | None = None) -> ScoreTally:
        """Count the correct predictions of the averaged weights, or of a candidate, on a held-out pack."""
        with torch.no_grad(), self._autocast():
            scores = unrolled_loss(candidate or self._average, *self._frozen(), pack)
        return ScoreTally(hits=tuple(scores.hits.tolist()), counts=tuple(scores.counts.tolist()))

    def candidate(self, weights: Mapping[str, Tensor]) -> Drafter:
        """Return a drafter with other weights, which are on the device and not copied, to compare with the own one."""
        with torch.device("meta"):  # without memory and initial values: seconds, for a large model
            drafter = Drafter(self.form).requires_grad_(requires_grad=False)
        drafter.load_state_dict(cast("dict[str, Tensor]", weights), assign=True)
        drafter.frequencies = self._drafter.frequencies
        return drafter

    def weights(self) -> dict[str, Tensor]:
        """Return copies of the averaged weights, on the CPU."""
        return _copied(self.averaged())

    def averaged(self) -> dict[str, Tensor]:
        """Return the averaged weights themselves, which the next step changes."""
        return _tensors(self._average)

    def base(self) -> Mapping[str, Tensor] | None:
        """Return the fleet's drafter of `base_version`; None: there is none, or it could never be read."""
        return self._base if self.counters.base_version and self._base else None

    def share_beside(self, newest: Published) -> float:
        """Return the weight of the own drafter in a mean with the newest: its share of the tokens of both."""
        own = self.counters
        return share_of(own.own_tokens, newest.tokens - own.base_tokens)

    def follow(self, newest: Published, adopt: Mapping[str, Tensor], *, has_own: bool = False) -> None:
        """
        Make the newest drafter the base and continue from `adopt`.

        Args:
            newest: The fleet's drafter.
            adopt: Its weights, a merge with the own, or the own. Fast if they are on the device.
            has_own: Whether they contain the own training.
        """
        own = self.counters
        ahead = 1 if has_own else 0
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

    def settle(self, version: DrafterVersion, weights: Mapping[str, Tensor], trained: Counters) -> None:
        """Record that these own weights, as they were at `trained`, were published; training continues unchanged."""
        self._base = dict(weights)
        self.counters = replace(
            self.counters, base_version=version, base_steps=trained.steps, base_tokens=trained.tokens
        )

    def stand_on(self, version: DrafterVersion) -> None:
        """Set the base version without adopting its weights, which are missing or broken."""
        self._base = {}
        self.counters = replace(self.counters, base_version=version)

    def snapshot(self) -> Snapshot:
        """Copy everything, so that it can be written while training continues."""
        state = self.state()
        return replace(
            state,
            weights=_copied(state.weights),
            average=_copied(state.average),
            optimizer=_copied(state.optimizer),
        )

    def state(self) -> Snapshot:
        """Return everything that `snapshot` copies, uncopied: the next step changes it."""
        return Snapshot(
            counters=self.counters,
            weights=_tensors(self._drafter),
            average=self.averaged(),
            base=self._base,  # replaced as a whole, never modified
            optimizer=self._optimizer.state(),
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Continue from a snapshot of a learner of the same shape."""
        _loaded(self._drafter, snapshot.weights)
        _loaded(self._average, snapshot.average)
        self._base = dict(snapshot.base)
        self._optimizer.load(snapshot.optimizer)
        self.counters = snapshot.counters

    def step(self) -> None:
        """Let the optimizer step."""
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

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16)


def copied(tensor: Tensor) -> Tensor:
    """Return a copy on the CPU."""
    return tensor.detach().to("cpu", copy=True)


def _copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: copied(tensor) for name, tensor in tensors.items()}


def _tensors(drafter: Drafter) -> dict[str, Tensor]:
    return {name: parameter.detach() for name, parameter in drafter.named_parameters()}


def _loaded(drafter: Drafter, weights: Mapping[str, Tensor]) -> None:
    drafter.load_state_dict(cast("dict[str, Tensor]", weights))
