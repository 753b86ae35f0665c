"""Episodes of one or two turns at the rollout endpoint."""

from dataclasses import dataclass, replace

from countdown.curriculum import reward
from countdown.task import Problem, verify
from countdown.vocabulary import encode, prompt_ids, response_text
from tlt_common.client import Client, FinishReason, SamplingParams, Speculation, TokenChunk

VERDICT = "That fails ."
"""What the tool says about a wrong answer, before it repeats the problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveEpisode:
    """One episode. The three tuples after `prompt` have the same length."""

    prompt: tuple[int, ...]
    token_ids: tuple[int, ...]
    """Sampled tokens and those of the tool."""
    logprobs: tuple[float, ...]
    """Of sampled tokens; 0 for those of the tool."""
    sampled: tuple[bool, ...]
    reward: float
    began_version: int
    """Policy version of the first token."""
    rounds: int

    @property
    def sampled_tokens(self) -> int:
        """Number of sampled tokens."""
        return sum(self.sampled)


@dataclass(frozen=True, slots=True, kw_only=True)
class Player:
    """Plays episodes on one side."""

    client: Client
    cap_tokens: int
    """Maximum sampled tokens of an episode."""
    is_on: bool
    """Whether speculation and the capture of states are allowed."""
    max_staleness: int | None = None

    async def play(self, problem: Problem, *, turns: int = 1) -> CurveEpisode | None:
        """Play one episode; None: it was ended because it became too stale."""
        prompt = tuple(prompt_ids(problem.prompt))
        episode = CurveEpisode(
            prompt=prompt, token_ids=(), logprobs=(), sampled=(), reward=0.0, began_version=-1, rounds=0
        )
        for turn in range(turns):
            answer = await self._turn(prompt + episode.token_ids, self.cap_tokens // turns)
            if answer.finish_reason is FinishReason.ABORT:
                return None
            episode = _with_answer(episode, answer)
            text = response_text(answer.token_ids)
            if verify(problem, text) or turn == turns - 1:
                break
            episode = _with_tool(episode, encode(f"{VERDICT} {problem.prompt}"))
        worth = reward(problem, text, length_tokens=episode.sampled_tokens, cap_tokens=self.cap_tokens)
        return replace(episode, reward=worth)

    async def _turn(self, prompt: tuple[int, ...], max_new_tokens: int) -> TokenChunk:
        return await self.client.generate(
            prompt,
            SamplingParams(max_new_tokens=max_new_tokens),
            speculation=Speculation.AUTO if self.is_on else Speculation.OFF,
            capture=self.is_on,
            max_staleness=self.max_staleness,
        )


def _with_answer(episode: CurveEpisode, answer: TokenChunk) -> CurveEpisode:
    return replace(
        episode,
        token_ids=episode.token_ids + answer.token_ids,
        logprobs=episode.logprobs + answer.logprobs,
        sampled=episode.sampled + (True,) * len(answer.token_ids),
        began_version=answer.policy_versions[0] if episode.began_version < 0 else episode.began_version,
        rounds=episode.rounds + (answer.stats.rounds if answer.stats else len(answer.token_ids)),
    )


def _with_tool(episode: CurveEpisode, token_ids: list[int]) -> CurveEpisode:
    return replace(
        episode,
        token_ids=(*episode.token_ids, *token_ids),
        logprobs=episode.logprobs + (0.0,) * len(token_ids),
        sampled=episode.sampled + (False,) * len(token_ids),
    )
