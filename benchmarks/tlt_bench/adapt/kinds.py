"""
Kinds of drafters for one policy: what each says after as many device seconds of learning, and what a round then takes.

The same responses for all: from nothing, and after a change of prompts. Tokens per second are accept lengths over the
calculated duration of a round (`tlt engine plan --rounds`), as many plain rounds, for models of 7B and 32B on an H100.
"""

from collections.abc import Mapping
from dataclasses import replace

import torch

from countdown.curriculum import LARGE, SMALL
from countdown.model import CHECKPOINT
from countdown.task import DEFAULT_MIX
from tlt_bench.adapt.course import DRAFTS, Course
from tlt_bench.adapt.data import Frames, Policy
from tlt_bench.engines.bench_engine import log
from tlt_bench.ratios import Figures, over
from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.format import DrafterFormat
from tlt_common.drafter.token_counts import TokenCounts
from tlt_trainer.data.frame import TrainingFrame
from tlt_trainer.drafter.shared_weights import read_config, trained_format
from tlt_worker.commands.cards import CONFIGS
from tlt_worker.commands.round_plan import planned_rounds
from tlt_worker.engine_config import EngineConfig

KINDS = (DrafterArchitecture.EAGLE, DrafterArchitecture.EAGLE3, DrafterArchitecture.BLOCK)
"""Those that any policy can have. Heads that a checkpoint brings are good drafters from the start."""
SECONDS = (15.0, 50.0, 150.0)
"""Device seconds after which they are compared."""
CHANGED_S = 15.0
"""Device seconds with prompts of another kind."""
LAYERS = (0, 1, 2)
"""All layers of the demo's policy but the last: it is not deep enough for the usual choice."""
MODELS, CARD = ("qwen2.5-7b", "qwen2.5-32b"), "h100"


def compare(policy: Policy, *, repeats: int = 1) -> Figures:
    """Train all kinds on the same responses; return accept lengths by device seconds, and calculated speeds."""
    torch.set_num_threads(2)
    log("sampling responses with states of three layers")
    learned = policy.frames(DEFAULT_MIX, prompts=96, samples=3, seed=60_000_000, layers=LAYERS)
    held_out = policy.frames(DEFAULT_MIX, prompts=24, samples=1, seed=70_000_000, layers=LAYERS)
    small = policy.frames(SMALL, prompts=96, samples=2, seed=61_000_000, layers=LAYERS)
    large = policy.frames(LARGE, prompts=48, samples=2, seed=62_000_000, layers=LAYERS)
    held_out_large = policy.frames(LARGE, prompts=24, samples=1, seed=71_000_000, layers=LAYERS)
    torch.set_num_threads(1)
    found = Figures()
    lengths: dict[tuple[str, str], list[float]] = {}
    for kind in KINDS:
        form = _form(kind)
        for seed in range(repeats):
            course = _course(form, held_out, learned, seed)
            for seconds in SECONDS:
                course.train(_read(form, learned), seconds=seconds - course.seconds)
                lengths.setdefault((str(kind), f"{seconds:.0f}"), []).append(course.score())
            changed = _course(form, held_out_large, small, seed)
            changed.train(_read(form, small), seconds=SECONDS[1])
            lengths.setdefault((str(kind), "before_change"), []).append(changed.score())
            changed.train(_read(form, large), seconds=CHANGED_S)
            lengths.setdefault((str(kind), "after_change"), []).append(changed.score())
            shown = ", ".join(f"{name} {values[-1]:.2f}" for (one, name), values in lengths.items() if one == kind)
            log(f"  {kind}: {shown} tokens per round")
    for (said, name), values in lengths.items():
        found.add(f"{said}_accept_length_{name}", values, _meaning(name))
    for kind in KINDS[1:]:
        ratios = over(lengths[str(kind), "50"], lengths["eagle", "50"])
        found.add(f"{kind}_vs_eagle_accept", ratios, "after 50 device seconds")
    for model in MODELS:
        for said, cost in _costs(model).items():
            for seconds in SECONDS:
                name = f"{seconds:.0f}"
                speeds = [length / cost for length in lengths[said, name]]
                found.add(f"{said}_{model}_speed_{name}", speeds, f"over plain decoding, {DRAFTS} drafts; calculated")
    return found


def _meaning(name: str) -> str:
    if name == "before_change":
        return f"on larger problems, after {SECONDS[1]:.0f} device seconds of small ones"
    if name == "after_change":
        return f"then {CHANGED_S:.0f} device seconds of larger ones"
    return f"after {name} device seconds on the same responses"


def _form(kind: DrafterArchitecture) -> DrafterFormat:
    layers = None if kind is DrafterArchitecture.EAGLE else LAYERS
    return trained_format(read_config(CHECKPOINT), kind, layers=layers)


def _course(form: DrafterFormat, held_out: Frames, learned: Frames, seed: int) -> Course:
    course = Course(_read(form, held_out), form=form, seed=seed)
    if form.has_map:
        counts = TokenCounts(form.vocab_size)
        for frame in learned:
            counts.add(frame.token_ids)
        course.learner.choose(torch.from_numpy(counts.frequent(form.draft_vocab_size)))
    return course


def _costs(model: str) -> Mapping[str, float]:
    """Return the duration of a round with so many drafts and one request, in plain rounds, by kind."""
    rounds = planned_rounds(EngineConfig(), CONFIGS[model], CARD, "bfloat16")
    return {
        one.drafter: one.over_plain for one in rounds if (one.drafts, one.batch) == (DRAFTS, 1) and one.drafter in KINDS
    }


def _read(form: DrafterFormat, frames: Frames) -> Frames:
    """Return frames with the states that drafters of this format read."""
    if form.layers:
        return frames
    return [
        TrainingFrame(
            header=replace(frame.header, hidden_size=form.hidden_size, layers=()),
            token_ids=frame.token_ids,
            hidden=frame.hidden[:, -form.hidden_size :],
        )
        for frame in frames
    ]
