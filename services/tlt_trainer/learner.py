"""
Learner: the drafter, its optimizer, and the tensors it shares with the policy. Synchronous; used by one thread.

The trained weights fluctuate; `average` is their running average, which is scored, published and merged.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor

from tlt_common.domain.ids import DrafterVersion
from tlt_common.drafter.format import DrafterFormat
from tlt_common.drafter.tensors import HEAD
from tlt_common.errors import WeightsError
from tlt_trainer.drafter.head_rows import HeadRows
from tlt_trainer.drafter.kinds.draft_model import AnyDrafter
from tlt_trainer.drafter.kinds.eagle3 import Eagle3Drafter
from tlt_trainer.drafter.kinds.mtp import MtpDrafter
from tlt_trainer.drafter.kinds.untrained import drafter_of
from tlt_trainer.drafter.loss import Pack
from tlt_trainer.drafter.losses import learns_with_rows, loss_of, scores_of
from tlt_trainer.drafter.merge import share_of
from tlt_trainer.drafter.optimizer import DrafterOptimizer, average_weight, rate, step_tokens
from tlt_trainer.drafter.own_head import OwnHead
from tlt_trainer.drafter.precision import compute_dtype
from tlt_trainer.drafter.score import ScoreTally
from tlt_trainer.drafter.shared_weights import SharedWeights
from tlt_trainer.drafter.values import copies, load, move, tensors_of
from tlt_trainer.learned import Published, Snapshot, TrainingCounters

SCORED_DRAFTS = 3
"""Drafts of the chain by which drafters are compared, at least."""


class Learner:
    """
    A drafter in training.

    Args:
        form: Format of the drafter.
        device: Device to train on.
        passes: Training passes; None uses the default of its kind.
        regression_weight: Weight of the states in the loss; None uses the default of its kind.
        drafts: Passes of scoring: drafts of a chain. None uses the training passes, at least three.
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
        self.dtype = compute_dtype(device)
        """Type of states, embedding, head and multiplications."""
        self._passes, self._regression_weight = passes, regression_weight
        self.counters = TrainingCounters()
        self.followed = DrafterVersion(0)
        """The drafter of another trainer that was last made the base."""
        self.planned_tokens: int | None = None
        """States after which training will end; None: it is open-ended."""
        self.tokens_before = 0
        """States from which the drafter had learned when such a training began."""
        self.policies = 0
        """How often embedding and head were replaced."""
        self._drafter = drafter_of(form).to(device)
        self._average = drafter_of(form).to(device).requires_grad_(requires_grad=False)
        self._drafts = drafts or max(SCORED_DRAFTS, self._drafter.drafts(passes))
        self._step_tokens = step_tokens(form, self._drafter.work(passes))
        self._base = copies(tensors_of(self._drafter))
        self._optimizer = DrafterOptimizer(self._drafter, self.dtype)
        self.rows = HeadRows(form.vocab_size) if learns_with_rows(self._drafter) else None
        """The rows of the policy's head to train with; None: this kind has a head of its own."""
        self._shared: SharedWeights | None = None
        self._pending_tokens = 0
        self._left = list[Callable[[], None]]()  # of an optimizer step that has begun
        self._has_tokens = self._has_head = False

    def begin(self, head: OwnHead) -> None:
        """Continue from the head in the policy's checkpoint, which serves as base until the fleet has a drafter."""
        experts = head.experts and head.experts.to(self.device, self.dtype)
        for drafter in (self._drafter, self._average):
            load(drafter, head.weights)
            if isinstance(drafter, MtpDrafter):
                drafter.experts = experts
        self._base, self._has_head = dict(head.weights), True

    def share(self, shared: SharedWeights | None) -> None:
        """Set the embedding and head to use; None frees them. Call it before the methods below."""
        if self.rows:
            self.rows.release()
        self._shared = shared and shared.to(self.dtype)
        self.policies += 1

    @property
    def tokens(self) -> Tensor | None:
        """The draft tokens of an EAGLE-3 drafter, (D,); -1 if none are chosen. None for EAGLE, which has no choice."""
        return self._drafter.tokens if isinstance(self._drafter, Eagle3Drafter) else None

    @property
    def lacks_tokens(self) -> bool:
        """Whether draft tokens must be chosen before training. On a GPU, this waits for all earlier work."""
        return (tokens_D := self.tokens) is not None and bool((tokens_D < 0).any())

    def choose(self, tokens_D: Tensor) -> None:
        """
        Set the draft tokens of an EAGLE-3 drafter, ascending; all -1 for none.

        Tokens that stay keep their training; head rows of new tokens start as the policy's. Does nothing for EAGLE.
        """
        _, head_VH = self._frozen()
        if (before_D := self.tokens) is None:
            return
        tokens_D = tokens_D.to(self.device)
        both = [drafter for drafter in (self._drafter, self._average) if isinstance(drafter, Eagle3Drafter)]
        heads = [drafter.head_for(tokens_D, head_VH) for drafter in both]  # first: memory may be short
        for drafter, head_DH in zip(both, heads, strict=True):
            drafter.choose(tokens_D, head_DH)
        self._optimizer.rearrange(HEAD, before_D, tokens_D)
        self._has_tokens = False

    @property
    def step_is_due(self) -> bool:
        """Whether enough tokens have accumulated for an optimizer step, or one has begun."""
        return bool(self._left) or self._pending_tokens >= self._step_tokens

    def micro_step(self, pack: Pack, *, steps: bool = True) -> float:
        """
        Train on one pack and return its loss per scored entry. The optimizer steps if a step is due.

        The gradient of a step is the sum over its samples, however they are packed.

        Args:
            pack: Samples.
            steps: False leaves a due step to the caller, who calls `step` or `step_piece`.

        Raises:
            WeightsError: The loss is not finite, because states or weights are broken. Nothing was changed.
        """
        with self._autocast():
            embedding_VH, head_VH = self._chosen()
            head_RH, weight = self.rows.of(head_VH) if self.rows else head_VH, self._regression_weight
            scores = loss_of(self._drafter, embedding_VH, head_RH, pack, passes=self._passes, regression_weight=weight)
        loss = float(scores.loss.detach() / max(1, len(pack.scored)))
        if not loss < float("inf"):  # also false for NaN
            raise WeightsError(f"the loss is {loss}: hidden states or weights are broken")
        (scores.loss / self._step_tokens).backward()  # type: ignore[no-untyped-call]
        self._pending_tokens += pack.tokens
        if steps and self.step_is_due:
            self.step()
        return loss

    def discard(self) -> None:
        """Discard the gradients of an incomplete optimizer step."""
        self._optimizer.discard()
        self._left.clear()
        self._pending_tokens = 0

    def tally(self, pack: Pack, candidate: AnyDrafter | None = None, *, temperature: float = 1.0) -> ScoreTally:
        """Count the correct predictions of the averaged weights, or of a candidate, on a held-out pack."""
        drafter, drafts = candidate or self._average, self._drafts
        with torch.no_grad(), self._autocast():
            scores = scores_of(drafter, *self._chosen(), pack, drafts=drafts, temperature=temperature)
        rows = torch.stack((scores.hits, scores.accepted, scores.counts)).tolist()  # one copy from the device
        return ScoreTally(hits=tuple(rows[0]), accepted=tuple(rows[1]), counts=tuple(rows[2]))

    def candidate(self, weights: Mapping[str, Tensor]) -> AnyDrafter:
        """Return a drafter with other weights, on the device and not copied, to compare with the learner's own."""
        with torch.device("meta"):  # without memory and initial values: seconds, for a large model
            drafter = drafter_of(self.form).requires_grad_(requires_grad=False)
        drafter.load_state_dict(cast("dict[str, Tensor]", weights), assign=True)
        drafter.borrow(self._drafter)
        return drafter

    def weights(self) -> dict[str, Tensor]:
        """Return copies of the averaged weights, on the CPU."""
        return copies(self.averaged())

    def averaged(self) -> dict[str, Tensor]:
        """Return the averaged weights themselves, which the next step changes."""
        return tensors_of(self._average)

    def base(self) -> Mapping[str, Tensor] | None:
        """
        Return the fleet's drafter of `base_version`; before the first one, the checkpoint's head.

        Returns None if there is none or it could never be read.
        """
        return self._base if (self.counters.base_version or self._has_head) and self._base else None

    def start_with(self, newest: Published) -> Mapping[str, Tensor]:
        """Return the common start of its own and the newest drafter; empty if unknown."""
        return self._base if newest.tokens > self.counters.base_tokens else {}

    def share_beside(self, newest: Published) -> float:
        """Return the weight of its own progress relative to the newest drafter's: its share of the tokens of both."""
        own = self.counters
        return share_of(own.own_tokens, newest.tokens - own.base_tokens)

    def follow(self, newest: Published, adopt: Mapping[str, Tensor], *, has_own: bool = False) -> None:
        """
        Make the newest drafter the base, and continue from `adopt`.

        Args:
            newest: The fleet's drafter.
            adopt: The newest weights, a merge, or the learner's own. Fast if they are on the device.
            has_own: Whether they contain the learner's own training.
        """
        own = self.counters
        ahead = 1 if has_own else 0
        self._base, self.followed = dict(newest.weights), newest.version
        self.counters = TrainingCounters(
            steps=newest.steps + ahead * own.own_steps,
            tokens=newest.tokens + ahead * own.own_tokens,
            base_version=newest.version,
            base_steps=newest.steps,
            base_tokens=newest.tokens,
        )
        before_D = self.tokens
        # The trained weights are ahead of their average; what they are ahead by is own progress too.
        move(self._drafter, tensors_of(self._average), adopt) if has_own else load(self._drafter, adopt)
        load(self._average, adopt)
        self._has_tokens = False
        if before_D is not None and (after_D := self.tokens) is not None and not torch.equal(before_D, after_D):
            self._optimizer.rearrange(HEAD, before_D, after_D)

    def settle(self, version: DrafterVersion, weights: Mapping[str, Tensor], trained: TrainingCounters) -> None:
        """Record that the weights as of `trained` were published. Training continues unchanged."""
        self._base = dict(weights)
        self.counters = replace(
            self.counters, base_version=version, base_steps=trained.steps, base_tokens=trained.tokens
        )

    def stand_on(self, version: DrafterVersion) -> None:
        """Set the base version without its weights, which are missing or broken."""
        self._base = {}
        self.counters = replace(self.counters, base_version=version)

    def snapshot(self) -> Snapshot:
        """Copy the complete state, so that it can be written while training continues."""
        state = self.state()
        return replace(
            state,
            weights=copies(state.weights),
            average=copies(state.average),
            optimizer=copies(state.optimizer),
        )

    def state(self, *, optimizer: bool = True) -> Snapshot:
        """Return the uncopied state for `snapshot`, optionally without the optimizer's. The next step changes it."""
        return Snapshot(
            counters=self.counters,
            weights=tensors_of(self._drafter),
            average=self.averaged(),
            base=self._base,  # replaced as a whole, never modified
            optimizer=self._optimizer.state() if optimizer else {},
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Continue from a snapshot of a learner of the same shape."""
        load(self._drafter, snapshot.weights)
        load(self._average, snapshot.average)
        self._base = dict(snapshot.base)
        self._optimizer.load(snapshot.optimizer)
        self.counters = snapshot.counters
        self._has_tokens = False

    def step(self) -> None:
        """Take an optimizer step, or complete the one that has begun."""
        while not self.step_piece():
            pass

    def step_piece(self) -> bool:
        """Take one piece of an optimizer step, such as one matrix; return whether the step is complete."""
        if not self._left:
            done = self.counters
            factor = rate(done.steps, done.tokens, self.planned_tokens, before=self.tokens_before)
            factor *= self._drafter.rate_factor
            self._left = [*self._optimizer.pieces(factor), self._end_step]
        self._left[0]()
        del self._left[0]
        return not self._left

    def _end_step(self) -> None:
        done = self.counters
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
        if not self._has_tokens:  # asked once per change
            if self.lacks_tokens:
                raise WeightsError("the drafter's tokens are not chosen yet")
            self._has_tokens = True
        return self._frozen()

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.dtype is torch.bfloat16)
