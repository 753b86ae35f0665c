"""
The cost model: durations of everything in a simulated run. Pure.

What a round takes is `tlt_worker.capacity.rounds.RoundTerms`, whose parts have the same names here, with an interval
and a source each. The drafter's quality is the acceptance probability of its first draft; `acceptance` says what
follows from it for chains and trees.

A drafter that has learned from n tokens has gone n / (n + learn_half_tokens) of the way from `accept_start`, or, if it
was a public one before, from `accept_public`, to `accept_best`; each update of the weights since then reduces that
probability by `ageing`.
"""

from collections.abc import Iterator
from dataclasses import fields

from tlt_common.config.base import Frozen
from tlt_common.domain.arm import OFF, Arm
from tlt_coordinator.lending.worth import LASTING_PASSES, TOGETHER
from tlt_simulator.costs import learning
from tlt_simulator.costs.acceptance import chain_chances, tree_chances
from tlt_simulator.costs.figure import CostFigure, Source
from tlt_simulator.costs.fitted_range import FittedRange
from tlt_worker.capacity.rounds import RoundTerms

NOTHING = CostFigure(value=0, source=Source.CALCULATED)
TERMS = tuple(field.name for field in fields(RoundTerms))


class CostModel(Frozen):
    """Costs of one device (or tensor-parallel group) with one model. Durations are seconds."""

    device: str
    model: str
    round_fixed_s: CostFigure
    """Launches, sampling and scheduling of a round."""
    round_read_s: CostFigure
    """Reading the weights, without routed experts."""
    round_token_s: CostFigure
    """Computing one verified token."""
    kv_token_s: CostFigure
    """Reading one token of the KV cache."""
    draft_fixed_s: CostFigure
    """A drafter pass, for one request."""
    draft_token_s: CostFigure
    """Each additional request in a drafter pass."""
    prefill_token_s: CostFigure
    accept_start: CostFigure
    """Acceptance probability of the first draft of a drafter that was made anew and has hardly learned."""
    accept_best: CostFigure
    """Acceptance probability of the first draft of a fully trained drafter."""
    accept_decay: CostFigure
    """The draft at place n of a path is accepted with the first one's probability to the power of this to the -n."""
    ngram_accept: CostFigure
    """Acceptance probability of the first n-gram draft, for a prompt with several samples."""
    learn_tokens_s: CostFigure
    """Tokens per second that one trainer learns from."""
    learn_half_tokens: CostFigure
    """Tokens after which a drafter has learned half of what it can."""
    ageing: CostFigure
    """Acceptance probability lost with each update of the weights that a drafter has not learned from."""
    lease_start_s: CostFigure
    """Time from a lease to the first training step."""
    lease_stop_s: CostFigure
    """Time from the end of a lease until the device is free."""
    drafter_load_s: CostFigure
    """Duration of an engine's pause to load a drafter."""
    update_s: CostFigure
    """Time from the trainer's call until all workers serve new weights."""
    fitted_to: FittedRange | None = None
    """Data to which it was fitted; null if it was not fitted."""
    round_request_s: CostFigure = NOTHING
    """Sampling and scheduling of each request of a round."""
    draft_round_s: CostFigure = NOTHING
    """What a round with a drafter takes besides its passes: inputs, verification of drafts, catching up."""
    draft_request_s: CostFigure = NOTHING
    """The same for each of its requests."""
    draft_kv_token_s: CostFigure = NOTHING
    """Reading one token of the drafter's KV cache in a pass."""
    draft_step_s: CostFigure = NOTHING
    """Each draft of a block, after the pass for all of them."""
    accept_public: CostFigure = learning.ACCEPT_PUBLIC
    """Acceptance probability of the first draft of a public drafter, before it learns from this policy."""
    ngram_alone_accept: CostFigure = learning.NGRAM_ALONE_ACCEPT
    """`ngram_accept` for prompts with one sample."""
    ngram_next_accept: CostFigure = learning.NGRAM_NEXT_ACCEPT
    """Acceptance probability of each further n-gram draft if those before were: a match that begins well goes on."""
    ngram_round_s: CostFigure = NOTHING
    """What a round with n-grams takes besides its rows."""
    ngram_request_s: CostFigure = NOTHING
    """Looking up the n-grams of a request."""
    expert_read_s: CostFigure = NOTHING
    """Reading all routed experts."""
    expert_share: CostFigure = NOTHING
    """Share of the routed experts that one token chooses."""
    state_bytes: CostFigure = NOTHING
    """Bytes of a token's hidden states in the cache; 0 if unknown, so that everything fits."""

    together: CostFigure = CostFigure(
        value=TOGETHER,
        low=0.0,
        high=0.5,
        source=Source.ASSUMED,
        of="measured on CPUs with small drafters (docs/results/services.md)",
    )
    """Exponent of the number of trainers with which they learn faster together."""
    lasting_passes: CostFigure = CostFigure(
        value=LASTING_PASSES, low=5.0, high=40.0, source=Source.PUBLISHED, of="language models (arXiv 2305.16264)"
    )
    """Passes over the same states after which another pass teaches 1/e of the first; 0 makes all passes equal."""
    tree_narrowing: CostFigure = CostFigure(
        value=0.55,
        low=0.35,
        high=0.7,
        source=Source.PUBLISHED,
        of="12 trees of four drafters (published.accept_lengths)",
    )
    """Power of the number of branches in the exponent of the probability that none of them is accepted."""

    @property
    def terms(self) -> RoundTerms:
        """The parts of a round."""
        return RoundTerms(**{name: getattr(self, name).value for name in TERMS})

    @property
    def plain_s(self) -> float:
        """Seconds of a round of one request without drafts and with an empty KV cache."""
        return self.terms.round_s(OFF, 1, 0.0)

    def accepted(self, arm: Arm, quality: float) -> float:
        """Return the mean number of drafts that a round of an arm gets accepted, with a drafter of this quality."""
        length, survives = 0.0, 1.0
        for chance in self.chances(arm, quality):
            survives *= chance
            length += survives
        return length

    def chances(self, arm: Arm, quality: float) -> tuple[float, ...]:
        """Return, for each position of a path of drafts, the probability that it is accepted if those before were."""
        drafts = min(arm.steps, arm.drafted_tokens)
        if arm.finds_drafts:
            return (self.ngram_accept.value, *[self.ngram_next_accept.value] * (drafts - 1))
        if arm.topk > 1:
            return tree_chances(arm, quality, self.accept_decay.value, self.tree_narrowing.value)
        return chain_chances(quality, self.accept_decay.value, drafts)

    def of_groups(self, *, siblings: bool) -> "CostModel":
        """Return this model for prompts with several samples, or with one."""
        return self if siblings else self.model_copy(update={"ngram_accept": self.ngram_alone_accept})

    def quality(self, learned_tokens: float, updates: float, *, public: bool = False) -> float:
        """
        Return the probability that the first draft of a drafter is accepted.

        Args:
            learned_tokens: Tokens that it learned from, of this policy.
            updates: Updates of the weights since then.
            public: Whether it was a public drafter before, rather than made anew.
        """
        share = learned_tokens / (learned_tokens + self.learn_half_tokens.value) if learned_tokens else 0.0
        start = (self.accept_public if public else self.accept_start).value
        best = max(start, self.accept_best.value)
        return min(1.0, max(0.0, start + (best - start) * share - self.ageing.value * updates))

    def figures(self) -> Iterator[tuple[str, CostFigure]]:
        """Yield all numbers by name."""
        for name in type(self).model_fields:
            figure = getattr(self, name)
            if isinstance(figure, CostFigure):
                yield name, figure

    def replaced(self, **values: float) -> "CostModel":
        """Return this model with other values of some numbers, which are then assumed."""
        return self.model_copy(
            update={name: CostFigure(value=value, source=Source.ASSUMED) for name, value in values.items()}
        )
