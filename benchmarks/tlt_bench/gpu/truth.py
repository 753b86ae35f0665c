"""
An engine's outputs in bfloat16 are correct: `python -m tlt_bench.gpu.truth FILE`.

The demo's policy answers prompts under arms in turn, and again while its weights and its drafter are replaced. Captured
states and logprobs are compared with a recomputation by transformers in float32, for each token under the weights that
its response names. In bfloat16 they differ by rounding only; states of another position or round differ by their norm.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from countdown.settings import DRAFTER
from tlt_bench.engines.capture_check import captured, expected_states, right_rows
from tlt_bench.engines.prepare import BenchTarget, prepared
from tlt_bench.workload import hard_prompts
from tlt_common.domain.hidden import CapturePolicy
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, RequestId
from tlt_common.domain.prompt import Prompt, SamplingParams
from tlt_common.domain.response import TokenChunk
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.engine_config import EngineConfig

DTYPE: Final = "bfloat16"
ARMS: Final = ("off", "chain-7", "chain-3", "ngram-5")
RESPONSES: Final = 8
TOKENS: Final = 160
UPDATE_AFTER: Final = 40
"""Tokens of the first response before weights and drafter are replaced."""
NOISE: Final = 0.05
"""Relative change of the new weights: enough to tell versions apart by logprobs."""
STATE_TOLERANCE: Final = 0.1
"""Of a state, relative to its norm: rounding to bfloat16 in 24 layers adds up to a few percent."""
LOGPROB_MEAN: Final = 0.05
"""Largest mean difference of logprobs, in nats."""


@dataclass(slots=True)
class Answer:
    """Tokens of prompt and response, with logprob and weight version of each response token."""

    prompt: tuple[int, ...]
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)

    def add(self, chunk: TokenChunk) -> None:
        """Append a chunk."""
        self.tokens += chunk.token_ids
        self.logprobs += chunk.logprobs
        self.versions += map(int, chunk.policy_versions)

    @property
    def text(self) -> list[int]:
        """Tokens of prompt and response."""
        return [*self.prompt, *self.tokens]


def main(path: Path) -> None:
    """Measure and judge."""
    with tempfile.TemporaryDirectory(prefix="tlt-bench-") as scratch:
        figures = asyncio.run(measure(Path(scratch)))
    path.write_text(json.dumps({"figures": figures}) + "\n")
    if figures["wrong_rows"] or not figures["rows"]:
        sys.exit(f"{figures['wrong_rows']:.0f} of {figures['rows']:.0f} captured states are wrong")
    for name in ("logprob_difference", "logprob_difference_updated"):
        if not figures[name] <= LOGPROB_MEAN:
            sys.exit(f"{name} is {figures[name]:.3f}; at most {LOGPROB_MEAN} is rounding")


async def measure(scratch: Path) -> dict[str, float]:
    """Run the engine; return the figures."""
    ready = await prepared(BenchTarget(), scratch)
    new = await asyncio.to_thread(changed, ready.model, scratch / "new")
    config = EngineConfig(dtype=DTYPE, arms=ARMS, drafter=DRAFTER, max_running=RESPONSES, context_length=1024)
    engine = SglangEngine(ready.model, config)
    try:
        await engine.start()
        engine.set_capture(CapturePolicy(enabled=True, frame_tokens=64))
        await _answers(engine, "warm", hard_prompts(1, seed=9), 4)  # the policy arrives with a round
        engine.force_arms(*ARMS)
        still = await _answers(engine, "still", hard_prompts(RESPONSES, seed=0), TOKENS)
        frames = [frame async for frame in captured(engine)]
        engine.set_capture(CapturePolicy(enabled=False))
        moved = await _updated(engine, new)
    finally:
        await engine.aclose()
    first, second = ({0: ready.model}, {0: ready.model, 1: new})
    texts = {RequestId(rid): answer.text for rid, answer in still.items()}
    states = await asyncio.to_thread(expected_states, ready.model, texts)
    mine = [(frame, states[frame.header.request_id]) for frame in frames if frame.header.request_id in states]
    right = sum(
        right_rows(frame, still[frame.header.request_id].text, wanted, tolerance=STATE_TOLERANCE)
        for frame, wanted in mine
    )
    rows = sum(frame.header.token_count for frame, _ in mine)
    differences = [await asyncio.to_thread(_differences, *each) for each in ((still, first), (moved, second))]
    versions = [version for answer in moved.values() for version in answer.versions]
    return {
        "rows": rows,
        "wrong_rows": rows - right,
        "logprob_difference": float(differences[0].mean()),
        "logprob_difference_p99": float(differences[0].quantile(0.99)),
        "logprob_difference_updated": float(differences[1].mean()),
        "updated_tokens": versions.count(1),
        "old_tokens": versions.count(0),
    }


def changed(model: Path, to: Path) -> Path:
    """Write a checkpoint with slightly different matrices; return its directory."""
    to.mkdir()
    generator = torch.Generator().manual_seed(1)
    for file in model.glob("*.safetensors"):
        tensors = load_file(file)
        for name, tensor in tensors.items():
            if tensor.dim() > 1:
                noise = torch.randn(tensor.shape, generator=generator) * tensor.float().std() * NOISE
                tensors[name] = (tensor.float() + noise).to(tensor.dtype)
        save_file(tensors, to / file.name, {"format": "pt"})
    (to / "config.json").write_bytes((model / "config.json").read_bytes())
    return to


async def _answers(
    engine: SglangEngine, name: str, prompts: Sequence[tuple[int, ...]], tokens: int, at: asyncio.Event | None = None
) -> dict[str, Answer]:
    """Answer all prompts; set `at` once the first has `UPDATE_AFTER` tokens."""
    answers = {f"{name}-{place}/0": Answer(ids) for place, ids in enumerate(prompts)}
    sampling = SamplingParams(max_new_tokens=tokens, ignore_eos=True)

    async def one(rid: str, answer: Answer) -> None:
        prompt = Prompt(request_id=RequestId(rid), token_ids=answer.prompt, sampling=sampling, capture=True)
        async for chunk in engine.generate(prompt):
            answer.add(chunk)
            if at is not None and len(answer.tokens) >= UPDATE_AFTER:
                at.set()

    await asyncio.gather(*(one(rid, answer) for rid, answer in answers.items()))
    return answers


async def _updated(engine: SglangEngine, new: Path) -> dict[str, Answer]:
    """Answer while weights and drafter are replaced."""
    at = asyncio.Event()

    async def update() -> None:
        await at.wait()
        await engine.load_weights(new, PolicyVersion(1))
        await engine.load_drafter(DRAFTER, DrafterVersion(2))

    prompts = hard_prompts(RESPONSES, seed=1)
    answers, _ = await asyncio.gather(_answers(engine, "moved", prompts, TOKENS, at), update())
    return answers


@torch.no_grad()
def _differences(answers: dict[str, Answer], models: dict[int, Path]) -> Tensor:
    """Return the distance of every token's logprob from that of the weights it names."""
    from transformers import AutoModelForCausalLM

    loaded = {n: AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32) for n, path in models.items()}
    found = []
    for answer in answers.values():
        text, start = torch.tensor([answer.text]), len(answer.prompt)
        by_version = {n: model(text).logits[0].log_softmax(-1) for n, model in loaded.items()}
        for place, (token, version) in enumerate(zip(answer.tokens, answer.versions, strict=True)):
            found.append(abs(answer.logprobs[place] - float(by_version[version][start + place - 1, token])))
    return torch.tensor(found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
