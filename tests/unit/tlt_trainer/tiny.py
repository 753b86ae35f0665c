"""A tiny policy, and frames it made."""

import random
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM

from tlt_common.codec import encode
from tlt_common.domain.hidden import EncodedFrame, FrameHeader, prompt_hash
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.block import BlockFormat
from tlt_common.drafter.format import DrafterFormat
from tlt_trainer.data.frame import TrainingFrame, decoded
from tlt_trainer.drafter.kinds.draft_model import AnyDrafter, DraftModel
from tlt_trainer.drafter.kinds.eagle3 import Eagle3Drafter
from tlt_trainer.drafter.kinds.untrained import drafter_of
from tlt_trainer.drafter.loss import Pack
from tlt_trainer.drafter.shared_weights import SharedWeights, read_config, read_format, read_shared, trained_format

VOCAB = 48
DRAFT_TOKENS = 40
READ = (0, 2)
"""Layers that EAGLE-3 drafters read."""
CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyPolicy:
    """A Llama, as a directory and as what the trainer makes of it."""

    directory: Path
    model: LlamaForCausalLM
    form: DrafterFormat
    shared: SharedWeights


def tiny_policy(directory: Path, layers: int = 2) -> TinyPolicy:
    """Make one of so many layers, always the same, for EAGLE drafters."""
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.25,
    )
    model = LlamaForCausalLM(config).eval()  # type: ignore[no-untyped-call]
    with torch.no_grad():
        model.lm_head.weight.mul_(4)  # a trained policy is sure of most tokens; a random one is not
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save_pretrained(directory)
    form = read_format(directory)
    return TinyPolicy(directory=directory, model=model, form=form, shared=read_shared(directory, form, CPU))


def for_eagle3(policy: TinyPolicy) -> TinyPolicy:
    """Return the policy with a format of EAGLE-3 drafters."""
    config = read_config(policy.directory)
    form = trained_format(config, DrafterArchitecture.EAGLE3, draft_vocabulary=DRAFT_TOKENS, layers=READ)
    return replace(policy, form=form)


def for_block(policy: TinyPolicy) -> TinyPolicy:
    """Return the policy with a format of small block drafters."""
    form = trained_format(read_config(policy.directory), DrafterArchitecture.BLOCK, layers=READ)
    assert isinstance(form, BlockFormat)
    return replace(policy, form=replace(form, drafts=4))


def frames_of(
    policy: TinyPolicy, count: int, *, seed: int = 0, tokens: int = 64, prompt: int = 4, version: int = 0
) -> list[TrainingFrame]:
    """Texts of a simple grammar, and the policy's states over them."""
    frames = encoded_frames_of(policy, count, seed=seed, tokens=tokens, prompt=prompt, version=version)
    return [decoded(frame) for frame in frames]


def encoded_frames_of(
    policy: TinyPolicy, count: int, *, seed: int = 0, tokens: int = 64, prompt: int = 4, version: int = 0
) -> list[EncodedFrame]:
    """The same, as an engine sends them."""
    rng = random.Random(seed)
    frames = []
    for number in range(count):
        first, step = rng.randrange(VOCAB), rng.choice((1, 5))
        ids = [(first + step * n) % VOCAB for n in range(tokens + 1)]
        with torch.no_grad():
            seen = policy.model.model(torch.tensor([ids]), output_hidden_states=True)
        read = [seen.hidden_states[layer + 1] for layer in policy.form.layers]
        hidden = torch.cat((*read, seen.last_hidden_state), dim=-1)[0, :tokens]
        header = FrameHeader(
            request_id=RequestId(f"s{seed}-{number}/0"),
            policy_version=PolicyVersion(version),
            prompt_hash=prompt_hash(ids[:prompt]),
            start=0,
            token_count=tokens,
            hidden_size=hidden.shape[1],
            dtype="BF16",
            prompt_tokens=prompt,
            response_tokens=tokens - prompt,
            finished=True,
            layers=policy.form.layers,
        )
        frames.append(encode(header, ids, [hidden.bfloat16().contiguous().view(torch.uint8).numpy().tobytes()]))
    return frames


def wild(form: DrafterFormat, seed: int = 3) -> DraftModel:
    """A drafter of one token after the other whose every weight matters; a new one has zeros."""
    drafter = wild_drafter(form, seed)
    assert isinstance(drafter, DraftModel)
    return drafter


def wild_drafter(form: DrafterFormat, seed: int = 3) -> AnyDrafter:
    """The same, of any kind."""
    drafter, generator = drafter_of(form), torch.Generator().manual_seed(seed)
    if isinstance(drafter, Eagle3Drafter):
        tokens = torch.randperm(form.vocab_size, generator=generator)[: form.draft_vocab_size].sort().values
        drafter.choose(tokens, torch.zeros(form.draft_vocab_size, form.hidden_size))
    with torch.no_grad():
        for parameter in drafter.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return drafter


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True, enable_gqa=True)[0]


def precise(pack: Pack) -> Pack:
    """The same in float64."""
    return replace(pack, hidden=pack.hidden.double())


def frame(number: int, tokens: int, *, start: int = 0, prompt: int = 0, policy: int = 0) -> TrainingFrame:
    """A frame without a policy, whose states all have the value `number`."""
    header = FrameHeader(
        request_id=RequestId(f"r{number}"),
        policy_version=PolicyVersion(policy),
        prompt_hash=prompt_hash([number]),
        start=start,
        token_count=tokens,
        hidden_size=32,
        dtype="F32",
        prompt_tokens=prompt,
        response_tokens=tokens,
        finished=True,
    )
    return TrainingFrame(
        header=header,
        token_ids=torch.tensor([(number + n) % 48 for n in range(tokens + 1)], dtype=torch.int32),
        hidden=torch.full((tokens, 32), float(number)),
    )
