"""
SGLang's draft layers and the trainer's on the same inputs.

SGLang's are built in this process, in a group of one, and run as an engine runs them: over a prompt, then token by
token on their own states. Only the attention kernel is ours, in plain torch, with the keys of earlier tokens.
"""

import os
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional
from transformers import AutoConfig

from tests.engine import models
from tlt_common import mimo
from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.format import DrafterFormat
from tlt_common.drafter.heads import HEADS
from tlt_common.drafter.meta import WEIGHTS_FILE, DrafterMeta
from tlt_common.drafter.reading import format_of
from tlt_trainer.drafter.files import from_files, to_files
from tlt_trainer.drafter.kinds.draft_model import DraftModel
from tlt_trainer.drafter.kinds.eagle3 import Eagle3Drafter
from tlt_trainer.drafter.kinds.mtp import MtpDrafter
from tlt_trainer.drafter.kinds.untrained import drafter_of
from tlt_trainer.drafter.own_head import read_own_head
from tlt_trainer.drafter.shared_weights import read_config, trained_format
from tlt_worker.checkpoints.own_head import own_head
from tlt_worker.engine.device import CPU

_MODULES = {
    "LlamaForCausalLMEagle": "llama_eagle",
    "LlamaForCausalLMEagle3": "llama_eagle3",
    "Glm4MoeForCausalLMNextN": "glm4_moe_nextn",
    "MiMoMTP": "mimo_mtp",
}
TOKENS = 12
DRAFTS = 5
LAYERS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Logits of one kind of drafter for one family of policies."""

    kind: str
    family: str
    difference: float
    """Largest difference of a logit, over prompt and drafts."""
    spread: float
    """Standard deviation of the logits."""


async def heads(work: Path) -> list[Agreement]:
    """Compare the heads that checkpoints bring along, for each family that has one."""
    mimo.register()
    targets = {
        row.model_type: models.write_head(
            models.write_target(work / row.model_type, vocabulary=48, layers=LAYERS, family=row.model_type)
        )
        for row in HEADS.values()
    }
    enter(next(iter(targets.values())))
    kind = DrafterArchitecture.MTP
    return [_compared(target, kind, family, work / f"{family}-{kind}") for family, target in targets.items()]


async def agreement(work: Path) -> list[Agreement]:
    """Compare both kinds of EAGLE drafters for three families of policies."""
    targets = {
        "llama": models.write_target(work / "llama", vocabulary=48, layers=LAYERS),
        **{family: models.write_qwen(work / family, family, layers=LAYERS) for family in ("qwen2", "qwen3")},
    }
    enter(targets["llama"])
    return [
        _compared(target, kind, family, work / f"{family}-{kind}")
        for family, target in targets.items()
        for kind in (DrafterArchitecture.EAGLE, DrafterArchitecture.EAGLE3)
    ]


async def variants(work: Path) -> list[Agreement]:
    """Compare drafters of several layers, and those with the norms of EAGLE 3.1."""
    target = models.write_target(work / "llama", vocabulary=48, layers=LAYERS)
    enter(target)
    return [
        _compared(target, kind, name, work / name, **changes)
        for kind, name, changes in (
            (DrafterArchitecture.EAGLE, "eagle of 2 layers", {"depth": 2}),
            (DrafterArchitecture.EAGLE3, "eagle3 of 3 layers", {"depth": 3}),
            (DrafterArchitecture.EAGLE3, "norm_before_fc", {"norms_all": True}),
            (DrafterArchitecture.EAGLE3, "fc_norm", {"norms_each": True}),
            (DrafterArchitecture.EAGLE3, "norm_output", {"norms_output": True}),
            (
                DrafterArchitecture.EAGLE3,
                "all of these",
                {"depth": 2, "norms_all": True, "norms_each": True, "norms_output": True},
            ),
        )
    ]


class Cache:
    """Causal attention of some layers that keeps keys and values, both as (heads, tokens, size)."""

    def __init__(self, layers: int = 1) -> None:
        self.kept = [(torch.empty(0), torch.empty(0))] * layers
        """Keys and values by layer."""
        self._calls = 0

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        layer = self._calls % len(self.kept)
        self._calls += 1
        keys, values = self.kept[layer]
        if keys.numel():
            k, v = torch.cat((keys, k), dim=1), torch.cat((values, v), dim=1)
        self.kept[layer] = k, v
        places = torch.arange(k.shape[1])
        seen = places[None] <= places[-q.shape[1] :, None]
        return functional.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=seen, enable_gqa=True)[0]

    def forward(self, q: Tensor, k: Tensor, v: Tensor, layer: Any, *_: Any, **__: Any) -> Tensor:
        """Attend as one of SGLang's attention backends."""
        heads = [x.reshape(len(x), -1, layer.head_dim).transpose(0, 1) for x in (q, k, v)]
        return self(*heads).transpose(0, 1).flatten(1)


class Batch(SimpleNamespace):
    """What layers read of SGLang's batch. What is not given is None, as are most fields of an engine's."""

    def __getattr__(self, name: str) -> None:
        """Return None for a field that was not given."""


def enter(target: Path) -> None:
    """Make this process one of SGLang's, of one rank."""
    os.environ.update(CPU.variables())
    CPU.enter()
    from sglang.srt.distributed import parallel_state
    from sglang.srt.runtime_context import SpawnRanks, publish
    from sglang.srt.server_args import ServerArgs

    args = ServerArgs(model_path=str(target), device="cpu", dtype="float32")
    publish(args, role="scheduler", ranks=SpawnRanks(world_rank=0))
    parallel_state.init_distributed_environment(
        world_size=1, rank=0, local_rank=0, backend="gloo", distributed_init_method=f"file://{target}/group"
    )
    parallel_state.initialize_model_parallel(backend="gloo")


def _compared(target: Path, kind: DrafterArchitecture, family: str, directory: Path, **changes: Any) -> Agreement:
    form = replace(trained_format(read_config(target), kind, draft_vocabulary=40, layers=(0, 1, 2)), **changes)
    assert format_of(form.config(read_config(target)), read_config(target)) == form
    ours = written(form, directory)
    brought: dict[str, Tensor] = {}
    if isinstance(ours, MtpDrafter) and (own := read_own_head(target, form)) is not None:
        ours.experts = own.experts and own.experts.to(torch.device("cpu"), torch.float32)
        # As ours, experts in bfloat16 and their router in the checkpoint's type.
        found = own_head(target, form).items()
        brought = {name: tensor if ".mlp.gate." in name else tensor.bfloat16() for name, tensor in found}
    embedding, head = (torch.randn(form.vocab_size, form.hidden_size) * scale for scale in (1.0, 0.5))
    ids = torch.randint(0, form.vocab_size, (TOKENS,))
    captured = torch.randn(TOKENS, (len(form.layers) + 1) * form.hidden_size)
    with torch.no_grad():
        logits = list(_ours(ours, embedding, head, ids, captured))
        expected = list(_theirs(directory, form, brought, embedding, head, ids, captured))
    difference = max(float((one - other).abs().max()) for one, other in zip(logits, expected, strict=True))
    return Agreement(kind=kind, family=family, difference=difference, spread=float(torch.cat(expected).std()))


def written(form: DrafterFormat, directory: Path) -> DraftModel:
    """Write a drafter whose every weight matters, and return it as it was written."""
    torch.manual_seed(5)
    drafter = drafter_of(form)
    assert isinstance(drafter, DraftModel)
    for parameter in drafter.parameters():
        parameter.data.add_(0.1 * torch.randn(parameter.shape))
    if isinstance(drafter, Eagle3Drafter):
        tokens = torch.randperm(form.vocab_size)[: form.draft_vocab_size].sort().values
        drafter.d2t.copy_(tokens - torch.arange(form.draft_vocab_size))
    meta = DrafterMeta(version=1, base=0, worker_id="w", steps=0, tokens=0, held_out_top1=0)
    files = to_files(drafter.state_dict(), form, meta)
    directory.mkdir()
    for name, content in files.items():
        (directory / name).write_bytes(content)
    drafter.load_state_dict(from_files(files, form))
    return drafter


def _ours(drafter: DraftModel, embedding: Tensor, head: Tensor, ids: Tensor, captured: Tensor) -> Iterator[Tensor]:
    """Yield the logits over the prompt, then those of each draft."""
    attend, states, places = Cache(drafter.form.layer_count), drafter.begin(captured), torch.arange(len(ids))
    for _ in range(DRAFTS):
        states = drafter(drafter.embedded(embedding[ids], places), states, drafter.angles(places), attend)
        logits = drafter.logits(states, head)
        yield logits
        states, ids, places = states[-1:], _drafted(logits, drafter.state_dict().get("d2t")), places[-1:] + 1


def _theirs(
    directory: Path,
    form: DrafterFormat,
    brought: Mapping[str, Tensor],
    embedding: Tensor,
    head: Tensor,
    ids: Tensor,
    captured: Tensor,
) -> Iterator[Tensor]:
    from sglang.srt.layers import radix_attention
    from sglang.srt.model_executor.forward_batch_info import ForwardMode

    made: Any = pkgutil.resolve_name(f"sglang.srt.models.{_MODULES[form.model_class]}:{form.model_class}")
    model = made(AutoConfig.from_pretrained(directory)).float().eval()
    model.load_weights({**brought, **load_file(directory / WEIGHTS_FILE)}.items())
    model.model.embed_tokens.weight.data[: form.vocab_size] = embedding
    if not form.has_map:
        model.lm_head.weight.data[: form.vocab_size] = head
    cache = Cache(form.layer_count)
    radix_attention.get_attn_backend = lambda: cache
    hidden, places = captured[:, : form.hidden_size * max(1, len(form.layers))], torch.arange(len(ids))
    mode = ForwardMode.EXTEND
    for _ in range(DRAFTS):
        spec_info = SimpleNamespace(hidden_states=hidden)
        batch = Batch(spec_info=spec_info, forward_mode=mode, contains_mm_inputs=lambda: False)
        out = model.model(ids, places, batch)
        normed, state = (out[0], out[1][0]) if form.has_map else (out, out)
        logits = normed @ model.lm_head.weight[: form.draft_vocab_size].T  # SGLang pads it
        yield logits
        tokens = model.hot_token_id - torch.arange(len(model.hot_token_id)) if form.has_map else None
        hidden, ids, places, mode = state[-1:], _drafted(logits, tokens), places[-1:] + 1, ForwardMode.DECODE


def _drafted(logits: Tensor, map_D: Tensor | None) -> Tensor:
    """Return the most likely token after the last one."""
    best = logits[-1:].argmax(-1)
    return best if map_D is None else best + map_D[best]
