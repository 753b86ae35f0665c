"""The same problems answered greedily with and without drafts, token by token."""

from tlt_common.client import Client, SamplingParams, Speculation, TokenChunk
from tlt_lab.demo.curriculum import LARGE, Curriculum
from tlt_lab.demo.record import Difference, Greedy
from tlt_lab.demo.vocabulary import prompt_ids

TOKENS = 256


async def compare(endpoint: str, *, prompts: int, seed: int) -> Greedy:
    """Answer fresh problems at temperature 0 on both sides."""
    problems = Curriculum(first=LARGE, last=LARGE).problems(0, count=prompts, seed=seed)
    asked = [prompt_ids(problem.prompt) for problem in problems]
    sampling = SamplingParams(temperature=0.0, max_new_tokens=TOKENS)
    async with Client(endpoint) as client:
        on = await client.batch(asked, 1, sampling, speculation=Speculation.AUTO, capture=False)
        off = await client.batch(asked, 1, sampling, speculation=Speculation.OFF, capture=False)
    found = (difference(index, mine, other) for index, ((mine,), (other,)) in enumerate(zip(on, off, strict=True)))
    return Greedy(responses=prompts, differences=tuple(one for one in found if one is not None))


def difference(response: int, mine: TokenChunk, other: TokenChunk) -> Difference | None:
    """Find where two responses part; None: nowhere."""
    pairs = zip(mine.token_ids, other.token_ids, mine.logprobs, other.logprobs, strict=False)
    for token, (left, right, left_logprob, right_logprob) in enumerate(pairs):
        if left != right:
            return Difference(response=response, token=token, gap=abs(left_logprob - right_logprob))
    if len(mine.token_ids) == len(other.token_ids):
        return None
    return Difference(response=response, token=min(len(mine.token_ids), len(other.token_ids)), gap=None)
