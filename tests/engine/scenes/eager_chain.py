"""A chain's steps on a CPU and SGLang's own, on the same caches: no engine is started."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig

from tests.engine import models
from tests.engine.scenes.agreement import Batch, Cache, enter, written
from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.meta import WEIGHTS_FILE
from tlt_trainer.drafter.shared_weights import read_config, trained_format

LENGTHS = (12, 5, 9)
STEPS = 6
VOCABULARY = 48
TEMPERATURES = (1.0, 0.7, 2.0)
NODES = 4
ACCEPTED = (4, 1, 3)
"""Tokens of each request's round that were accepted."""
SLOTS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Chains:
    """Chains of one drafter."""

    family: str
    difference: float
    """Largest difference of a logarithm of a probability from SGLang's, over all drafts."""
    spread: float
    """Standard deviation of these logarithms."""
    is_most_likely: bool
    """Whether drafts that are not sampled are the most likely tokens."""
    is_greedy: bool
    """Whether a request at temperature 0 drafts its most likely tokens beside others."""
    is_spread: bool
    """Whether a head that covers a part of the vocabulary drafts that part."""
    is_seeded: bool
    """Whether seeds draw the same drafts again, in another batch."""
    extended: float
    """Largest difference of a verified round's keys, values, states and logits from SGLang's."""


async def chains(work: Path) -> list[Chains]:
    """Compare the chains of drafters for three families of policies."""
    targets = {
        "llama": models.write_target(work / "llama", vocabulary=VOCABULARY, layers=4),
        **{family: models.write_qwen(work / family, family, layers=4) for family in ("qwen2", "qwen3")},
    }
    enter(targets["llama"])
    with torch.no_grad():
        return [_compared(target, family, work / f"{family}-drafter") for family, target in targets.items()]


def _compared(target: Path, family: str, directory: Path) -> Chains:
    from safetensors.torch import load_file
    from sglang.srt.layers import radix_attention
    from sglang.srt.model_executor.forward_batch_info import ForwardMode
    from sglang.srt.models.llama_eagle import LlamaForCausalLMEagle

    form = trained_format(read_config(target), DrafterArchitecture.EAGLE, draft_vocabulary=40, layers=(0, 1, 2))
    written(form, directory)
    model: Any = LlamaForCausalLMEagle(AutoConfig.from_pretrained(directory)).float().eval()
    model.load_weights(load_file(directory / WEIGHTS_FILE).items())
    for weight, scale in ((model.model.embed_tokens.weight, 1.0), (model.lm_head.weight, 0.5)):
        weight.data[: form.vocab_size] = torch.randn(form.vocab_size, form.hidden_size) * scale
    caches = [Cache() for _ in LENGTHS]

    def states(request: int, ids: Tensor, hidden: Tensor, places: Tensor) -> Tensor:
        radix_attention.get_attn_backend = lambda: caches[request]
        mode = ForwardMode.EXTEND if len(ids) > 1 else ForwardMode.DECODE
        spec_info = SimpleNamespace(hidden_states=hidden)
        batch = Batch(spec_info=spec_info, forward_mode=mode, contains_mm_inputs=lambda: False)
        state: Tensor = model.model(ids, places, batch)
        return state

    prompts = [torch.randint(0, form.vocab_size, (length,)) for length in LENGTHS]
    after = [
        states(place, ids, torch.randn(len(ids), form.hidden_size), torch.arange(len(ids)))[-1:]
        for place, ids in enumerate(prompts)
    ]
    chain, batch = _chain(model, caches), _batch(torch.cat(after), form.vocab_size)
    drafts, probs = chain.draft(batch, STEPS, samples=True)
    assert probs is not None
    expected = []
    for place, length in enumerate(LENGTHS):
        hidden = after[place]
        for step in range(STEPS - 1):
            hidden = states(place, drafts[place, step : step + 1], hidden, torch.tensor([length + step]))
            logits = hidden @ model.lm_head.weight[: form.vocab_size].T
            expected.append((logits / TEMPERATURES[place]).log_softmax(-1))
    wanted = torch.cat(expected).view(len(LENGTHS), STEPS - 1, -1)
    best, none = chain.draft(batch, STEPS, samples=False)
    first = torch.cat([batch.spec_info.topk_index, wanted[:, :1].argmax(-1)], 1)
    again, _ = chain.draft(_batch(torch.cat(after), form.vocab_size, only=2), STEPS, samples=True)
    return Chains(
        family=family,
        difference=float((probs[:, 1:].log() - wanted).abs().max()),
        spread=float(wanted.std()),
        is_most_likely=none is None and torch.equal(best[:, :2], first),
        is_greedy=torch.equal(drafts[0, 1:], probs[0, 1:].argmax(-1)),
        is_spread=_spreads(model, chain, batch, wanted[:, 0]),
        is_seeded=torch.equal(again[0], drafts[2]),
        extended=_extended(model, caches, states, form.vocab_size, form.hidden_size),
    )


def _spreads(model: Any, chain: Any, batch: Any, wanted: Tensor) -> bool:
    """Draft with every second token covered, whose log-probabilities with all of them are `wanted`."""
    from tlt_worker.scheduler.models.spread import SpreadLogits

    covered = torch.arange(0, wanted.shape[1], 2)
    model.spread = SpreadLogits(wanted.shape[1], model.lm_head.weight.shape[0])
    model.spread.cover(covered, covered)
    model.is_reduced = True
    found = chain.draft(batch, 2, samples=True)[1][:, 1]
    model.is_reduced = False
    expected = torch.zeros_like(wanted)
    expected[:, covered] = wanted[:, covered].softmax(-1)
    return torch.allclose(found, expected, atol=1e-5)


def _extended(
    model: Any, caches: list[Cache], states: Callable[[int, Tensor, Tensor, Tensor], Tensor], vocabulary: int, size: int
) -> float:
    """Process a round of `NODES` tokens per request with both; return the largest difference."""
    for cache, length in zip(caches, LENGTHS, strict=True):
        keys, values = cache.kept[0]
        cache.kept[0] = keys[:, :length], values[:, :length]
    chain, tokens = _chain(model, caches), torch.randint(0, vocabulary, (len(LENGTHS), NODES))
    hidden = torch.randn(len(LENGTHS), NODES, size)
    places = [torch.arange(length, length + NODES) for length in LENGTHS]
    # In slots that nothing else is in.
    slots = torch.arange(SLOTS - len(LENGTHS) * NODES, SLOTS).view(len(LENGTHS), NODES)
    for row, (mine, place) in enumerate(zip(slots, places, strict=True), start=1):
        chain.slot_table[row, place] = mine.to(torch.int32)
    batch = SimpleNamespace(
        out_cache_loc=slots.view(-1),
        seq_lens=torch.tensor(LENGTHS),
        req_pool_indices=torch.arange(1, len(LENGTHS) + 1),
        reqs=LENGTHS,
    )
    result = SimpleNamespace(
        next_token_ids=tokens.view(-1).to(torch.int32),
        accept_lens=torch.tensor(ACCEPTED, dtype=torch.int32),
        logits_output=SimpleNamespace(hidden_states=hidden.view(-1, size)),
    )
    logits, found = chain.extend(batch, result)
    differences = []
    for request, (accepted, place) in enumerate(zip(ACCEPTED, places, strict=True)):
        state = states(request, tokens[request], hidden[request], place)[accepted - 1]
        head = model.lm_head.weight[:vocabulary]
        pairs = [(found[request], state), (logits[request], head @ state)]
        for buffer, kept in (
            (chain.pool.get_key_buffer(0), caches[request].kept[0][0]),
            (chain.pool.get_value_buffer(0), caches[request].kept[0][1]),
        ):
            pairs.append((buffer[slots[request]].transpose(0, 1), kept[:, -NODES:]))
        differences += [float((one - other).abs().max()) for one, other in pairs]
    return max(differences)


def _chain(model: Any, caches: list[Cache]) -> Any:
    """Return the chain, with what SGLang's model has put in the caches in slots of a pool."""
    from tlt_worker.scheduler.drafts.eager_chain import EagerChain

    slots = torch.randperm(SLOTS - len(caches) * NODES)
    table = torch.randint(0, SLOTS, (len(caches) + 1, 20), dtype=torch.int32)  # stale slots beyond each end
    heads, _, size = caches[0].kept[0][0].shape
    keys, values = torch.randn(2, SLOTS, heads, size).unbind(0)
    used = 0
    for row, cache in enumerate(caches, start=1):
        mine = slots[used : used + cache.kept[0][0].shape[1]]
        table[row, : len(mine)] = mine
        keys[mine], values[mine] = (each.transpose(0, 1) for each in cache.kept[0])
        used += len(mine)
    pool = SimpleNamespace(get_key_buffer=lambda _: keys, get_value_buffer=lambda _: values)
    chain = EagerChain.of(SimpleNamespace(model=model, token_to_kv_pool=pool), table)
    assert chain is not None
    return chain


def _batch(hidden: Tensor, vocabulary: int, *, only: int | None = None) -> Any:
    """Return a batch of SGLang's with the requests, or one of them."""
    of = slice(None) if only is None else slice(only, only + 1)
    torch.manual_seed(7)
    first = torch.randint(0, vocabulary, (len(LENGTHS), 1))
    return SimpleNamespace(
        spec_info=SimpleNamespace(
            topk_index=first[of], draft_probs=torch.ones(len(LENGTHS), vocabulary)[of], hidden_states=hidden[of]
        ),
        sampling_info=SimpleNamespace(
            temperatures=torch.tensor(TEMPERATURES).view(-1, 1)[of],
            top_ks=torch.tensor([1, 99, 99])[of],
            is_any_greedy=only is None,
            sampling_seed=torch.tensor([-1, -1, 11])[of],
        ),
        seq_lens=torch.tensor(LENGTHS)[of],
        req_pool_indices=torch.arange(1, len(LENGTHS) + 1)[of],
        reqs=list(LENGTHS)[of],
    )
