"""How many tokens an optimizer step learns from."""

import pytest

import tlt_trainer.learner
from tests.unit.tlt_trainer.tiny import CPU, TinyPolicy, frames_of
from tlt_common.drafter.eagle import EagleFormat
from tlt_common.drafter.eagle3 import Eagle3Format
from tlt_common.drafter.format import DrafterFormat
from tlt_trainer.data.pack import collate
from tlt_trainer.drafter.optimizer import MIN_TOKENS, step_tokens
from tlt_trainer.learner import Learner


def _shape(hidden: int, inner: int, vocabulary: int, *, eagle3: bool = False) -> DrafterFormat:
    made = Eagle3Format if eagle3 else EagleFormat
    return made(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=inner,
        heads=hidden // 64,
        kv_heads=hidden // 64,
        head_dim=64,
        norm_eps=1e-6,
        rope={},
        draft_vocab_size=32_000 if eagle3 else vocabulary,
        layers=(2, 16, 29) if eagle3 else (),
    )


def test_a_step_of_a_larger_drafter_takes_more_tokens() -> None:
    demo, of_7b, of_72b = (
        step_tokens(_shape(*sizes), 3) for sizes in ((256, 704, 160), (3584, 18_944, 152_064), (8192, 29_568, 152_064))
    )
    assert demo == MIN_TOKENS
    assert 1000 < of_7b < 1500 < of_72b < 5000
    # More passes are more work for the same step.
    assert step_tokens(_shape(4096, 14_336, 128_256, eagle3=True), 7) < step_tokens(_shape(4096, 14_336, 128_256), 3)


def test_gradients_of_several_batches_make_a_step(policy: TinyPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    pack = collate(frames_of(policy, 2), CPU)
    monkeypatch.setattr(tlt_trainer.learner, "step_tokens", lambda _form, _passes: 2 * pack.tokens)
    learner = Learner(policy.form, CPU)
    learner.share(policy.shared)
    learner.micro_step(pack)
    assert (learner.counters.steps, learner.counters.tokens) == (0, 0)
    learner.micro_step(pack)
    assert (learner.counters.steps, learner.counters.tokens) == (1, 2 * pack.tokens)
