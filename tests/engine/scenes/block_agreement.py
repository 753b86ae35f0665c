"""
SGLang's block drafters and the trainer's on the same files and inputs.

SGLang's are built in this process, in a group of one; keys and values of the context are projected as its workers do.
Only the attention kernel is ours, in plain torch.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional
from transformers import AutoConfig

from tests.engine import models
from tests.engine.scenes.agreement import Batch, enter
from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.block import BlockFormat, MarkovHead
from tlt_common.drafter.meta import WEIGHTS_FILE, DrafterMeta
from tlt_trainer.drafter.files import from_files, to_files
from tlt_trainer.drafter.kinds.block import BlockDrafter
from tlt_trainer.drafter.shared_weights import read_config, trained_format

CONTEXT = 11
VOCABULARY = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockAgreement:
    """Logits of one format for one family of policies."""

    head: str
    anchored: bool
    family: str
    difference: float
    """Largest difference of a logit of a block."""
    spread: float
    """Standard deviation of the logits."""


async def block_agreement(work: Path) -> list[BlockAgreement]:
    """Compare DFlash, and DSpark with every head and both ways to begin, for two families of policies."""
    targets = {
        "llama": models.write_target(work / "llama", vocabulary=VOCABULARY, layers=4),
        "qwen3": models.write_qwen(work / "qwen3", "qwen3", layers=4),
    }
    enter(targets["llama"])
    kinds = [(head, anchored) for head in MarkovHead for anchored in (False, True)]
    return [
        _compared(target, family, head, work / f"{family}-{head}-{anchored}", anchored=anchored)
        for family, target in targets.items()
        for head, anchored in kinds
        if head is not MarkovHead.NONE or not anchored
    ]


class Context:
    """Attention of a block to all of it and to keys and values of a context, by layer."""

    def __init__(self) -> None:
        self.of_layer: dict[int, tuple[Tensor, Tensor]] = {}

    def forward(self, q: Tensor, k: Tensor, v: Tensor, layer: Any, *_: Any, **__: Any) -> Tensor:
        """Attend as one of SGLang's attention backends."""
        keys, values = self.of_layer[layer.layer_id]
        q, k, v = (x.reshape(len(x), -1, layer.head_dim).transpose(0, 1) for x in (q, k, v))
        both = torch.cat((keys, k), dim=1), torch.cat((values, v), dim=1)
        seen = functional.scaled_dot_product_attention(q[None], both[0][None], both[1][None], enable_gqa=True)[0]
        return seen.transpose(0, 1).flatten(1)


def _compared(target: Path, family: str, head: MarkovHead, directory: Path, *, anchored: bool) -> BlockAgreement:
    form = trained_format(read_config(target), DrafterArchitecture.BLOCK, layers=(0, 1, 2))
    assert isinstance(form, BlockFormat)
    rank = 0 if head is MarkovHead.NONE else 8
    form = replace(form, drafts=5, depth=3, markov_head=head, markov_rank=rank, samples_anchor=anchored)
    ours = _written(form, directory)
    embedding, policys_head = (torch.randn(form.vocab_size, form.hidden_size) * scale for scale in (1.0, 0.5))
    captured = torch.randn(CONTEXT, form.captured_size)
    said = torch.randint(0, form.vocab_size, (form.drafts,))  # the anchor, and all drafts but the last
    with torch.no_grad():
        found = _ours(ours, embedding, policys_head, said, captured)
        expected = _theirs(directory, form, embedding, policys_head, said, captured)
    return BlockAgreement(
        head=str(head),
        anchored=anchored,
        family=family,
        difference=float((found - expected).abs().max()),
        spread=float(expected.std()),
    )


def _written(form: BlockFormat, directory: Path) -> BlockDrafter:
    """Write a drafter whose every weight matters, and return it as it was written."""
    torch.manual_seed(5)
    drafter = BlockDrafter(form)
    for parameter in drafter.parameters():
        parameter.data.add_(0.1 * torch.randn(parameter.shape))
    meta = DrafterMeta(version=1, base=0, worker_id="w", steps=0, tokens=0, held_out_top1=0)
    files = to_files(drafter.state_dict(), form, meta)
    directory.mkdir()
    for name, content in files.items():
        (directory / name).write_bytes(content)
    drafter.load_state_dict(from_files(files, form))
    return drafter


def _ours(drafter: BlockDrafter, embedding: Tensor, head: Tensor, said: Tensor, captured: Tensor) -> Tensor:
    places, seen = torch.arange(CONTEXT), torch.ones(1, CONTEXT, dtype=torch.bool)
    hidden = drafter(said[:1], torch.tensor([CONTEXT]), seen, captured, places, embedding)
    return drafter.logits(hidden, said[None], head)[0]


def _theirs(
    directory: Path, form: BlockFormat, embedding: Tensor, head: Tensor, said: Tensor, captured: Tensor
) -> Tensor:
    from sglang.srt.layers import radix_attention
    from sglang.srt.layers.vocab_parallel_embedding import ParallelLMHead
    from sglang.srt.model_executor.forward_batch_info import ForwardMode
    from sglang.srt.models.dflash import DFlashDraftModel
    from sglang.srt.models.dspark import Qwen3DSparkModel, project_through_lm_head

    made = Qwen3DSparkModel if form.markov_rank else DFlashDraftModel
    model: Any = made(AutoConfig.from_pretrained(directory)).float().eval()
    assert type(model).__name__ == form.model_class
    assert model.block_size == form.block_drafts + (0 if form.markov_rank else 1)
    model.load_weights(load_file(directory / WEIGHTS_FILE).items())
    policys_head: Any = ParallelLMHead(form.vocab_size, form.hidden_size).float()
    policys_head.weight.data.zero_()
    policys_head.weight.data[: form.vocab_size] = head
    context, places = Context(), torch.arange(CONTEXT)
    radix_attention.get_attn_backend = lambda: context
    fused = model.project_target_hidden(captured[:, : -form.hidden_size])
    for number, layer in enumerate(model.layers):
        attention = layer.self_attn
        k, v = attention.kv_proj_only(fused)
        k = attention.apply_k_rope(places, attention.apply_k_norm(k))
        context.of_layer[number] = tuple(x.view(CONTEXT, -1, form.head_dim).transpose(0, 1) for x in (k, v))
    ids = torch.tensor([int(said[0]), *[form.mask_token] * (form.block_queries - 1)])
    positions = CONTEXT + torch.arange(form.block_queries)
    batch = Batch(forward_mode=ForwardMode.TARGET_VERIFY, contains_mm_inputs=lambda: False)
    out = model(ids, positions, batch, input_embeds=embedding[ids])
    hidden = out.hidden_states[form.first_query :]
    if not form.markov_rank:
        logits: Tensor = project_through_lm_head(hidden, policys_head)[:, : form.vocab_size]
        return logits
    model.attach_shared_modules(embed_tokens=None, lm_head=policys_head)
    logits = model.compute_base_logits(hidden)[0]
    markov, biases = model.markov_head, []
    state = markov.init_state(hidden[:1])
    for hidden_H, before in zip(hidden, said, strict=True):
        bias, state = markov.step_bias(before[None], hidden_states=hidden_H[None], state=state)
        biases.append(bias)
    return logits + torch.cat(biases)
