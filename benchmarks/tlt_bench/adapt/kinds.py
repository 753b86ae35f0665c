"""EAGLE against EAGLE-3: the same responses, the same device seconds."""

from dataclasses import replace

import torch

from countdown.model import CHECKPOINT
from countdown.task import DEFAULT_MIX
from tlt_bench.adapt.course import Course
from tlt_bench.adapt.data import Frames, Policy
from tlt_bench.engines.bench_engine import log
from tlt_bench.ratios import Figures, over
from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.token_counts import TokenCounts
from tlt_trainer.data.frame import TrainingFrame
from tlt_trainer.drafter.shared_weights import read_config, trained_format

EQUAL_S = 50.0
"""Device seconds of each."""
LAYERS = (0, 1, 2)
"""All layers of the demo's policy but the last: it is not deep enough for the usual choice."""


def compare(policy: Policy, *, repeats: int) -> Figures:
    """Train both kinds on the same responses for as many device seconds; return their accept lengths."""
    torch.set_num_threads(2)
    log("sampling 144 responses to 48 prompts, with states of three layers")
    deep = policy.frames(DEFAULT_MIX, prompts=48, samples=3, seed=60_000_000, layers=LAYERS)
    deep_held_out = policy.frames(DEFAULT_MIX, prompts=24, samples=1, seed=70_000_000, layers=LAYERS)
    torch.set_num_threads(1)
    form = trained_format(read_config(CHECKPOINT), DrafterArchitecture.EAGLE3, layers=LAYERS)
    counts = TokenCounts(form.vocab_size)
    for frame in deep:
        counts.add(frame.token_ids)
    lengths: dict[str, list[float]] = {"eagle": [], "eagle3": []}
    for seed in range(repeats):
        eagle = Course(_last(deep_held_out, form.hidden_size), seed=seed)
        eagle.train(_last(deep, form.hidden_size), seconds=EQUAL_S)
        lengths["eagle"].append(eagle.score())
        eagle3 = Course(deep_held_out, form=form, seed=seed)
        eagle3.learner.choose(torch.from_numpy(counts.frequent(form.draft_vocab_size)))
        eagle3.train(deep, seconds=EQUAL_S)
        lengths["eagle3"].append(eagle3.score())
        log(f"  {lengths['eagle'][-1]:.2f} tokens per round with EAGLE, {lengths['eagle3'][-1]:.2f} with EAGLE-3")
    found = Figures()
    for kind, values in lengths.items():
        found.add(f"{kind}_accept_length", values, f"after {EQUAL_S:.0f} device seconds on the same responses")
    found.add("eagle3_vs_eagle_accept", over(lengths["eagle3"], lengths["eagle"]))
    return found


def _last(frames: Frames, hidden_size: int) -> Frames:
    """Return the frames with the policy's last states alone, as EAGLE reads them."""
    return [
        TrainingFrame(
            header=replace(frame.header, hidden_size=hidden_size, layers=()),
            token_ids=frame.token_ids,
            hidden=frame.hidden[:, -hidden_size:],
        )
        for frame in frames
    ]
