"""Plain sampling from a policy, for evaluation. Rollouts use the engine instead."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import DynamicCache, LlamaForCausalLM

from countdown.task import Problem, verify
from countdown.vocabulary import EOS_ID, prompt_ids, response_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response of the policy to a problem, including the end token."""

    problem: Problem
    ids: tuple[int, ...]

    @property
    def is_complete(self) -> bool:
        """Whether the response ended with the end token, not at the cap."""
        return bool(self.ids) and self.ids[-1] == EOS_ID

    @property
    def is_correct(self) -> bool:
        """Whether the response is complete and its answer is correct."""
        return self.is_complete and verify(self.problem, response_text(self.ids))


def sample(model: LlamaForCausalLM, problems: Sequence[Problem], *, cap_tokens: int, seed: int) -> list[Response]:
    """Sample one response per problem at temperature 1, of at most `cap_tokens` tokens; grouped by number count."""
    generator = torch.Generator().manual_seed(seed)
    groups = defaultdict[int, list[Problem]](list)
    for problem in problems:
        groups[len(problem.numbers)].append(problem)
    return [
        response
        for count in sorted(groups)
        for response in _sample_group(model, groups[count], cap_tokens=cap_tokens, generator=generator)
    ]


@torch.inference_mode()
def _sample_group(
    model: LlamaForCausalLM, problems: Sequence[Problem], *, cap_tokens: int, generator: torch.Generator
) -> list[Response]:
    """Sample problems with the same number count. Their prompts have equal length, so no padding or mask is needed."""
    responses = [list[int]() for _ in problems]
    live = list(range(len(problems)))
    cache = DynamicCache(config=model.config)
    tokens_BT = torch.tensor([prompt_ids(problem.prompt) for problem in problems])
    while live:
        logits_BV = model(input_ids=tokens_BT, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1]
        tokens_BT = _draw(logits_BV, generator)
        for row, token in zip(live, tokens_BT[:, 0].tolist(), strict=True):
            responses[row].append(token)
        keep = [
            place for place, row in enumerate(live) if responses[row][-1] != EOS_ID and len(responses[row]) < cap_tokens
        ]
        if len(keep) < len(live):
            live = [live[place] for place in keep]
            tokens_BT = tokens_BT[keep]
            cache.batch_select_indices(torch.tensor(keep, dtype=torch.long))
    return [Response(problem=problem, ids=tuple(ids)) for problem, ids in zip(problems, responses, strict=True)]


def _draw(logits_BV: Tensor, generator: torch.Generator) -> Tensor:
    return torch.multinomial(logits_BV.float().softmax(-1), 1, generator=generator)
