"""OpenRLHF's own agent executors, with the suite as their engine: one turn, then an episode of two turns."""

import argparse
import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from openrlhf.utils.agent import AgentInstanceBase, MultiTurnAgentExecutor, SingleTurnAgentExecutor
from transformers import AutoTokenizer

from tlt_suite.openrlhf import TltEngine

PROMPT = "<bos> Numbers 2 5 7 . Target 14 ."


class AgentInstance(AgentInstanceBase):  # type: ignore[misc]
    """Answers the first turn, and ends after the second."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._turns = 0

    async def step(self, state_dict: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Reward an action that gives an answer."""
        self._turns += 1
        reward = torch.tensor(float("Answer" in state_dict["action_text"]))
        return {"rewards": reward, "environment_feedback": " Hmm", "done": self._turns == 2}


async def main(endpoint: str, model: str) -> None:
    """Run both executors and check what the learner would receive."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    engine = TltEngine(endpoint, tokenizer=tokenizer)
    sampling = SimpleNamespace(temperature=1.0, top_p=1.0, max_tokens=64, logprobs=1)
    single = await SingleTurnAgentExecutor().execute(PROMPT, "14", sampling, 256, tokenizer, engine)
    ((begin, end),) = single["action_ranges"]
    assert end - begin > 0  # noqa: S101
    assert len(single["rollout_log_probs"]) == len(single["observation_tokens"]) == end  # noqa: S101
    assert all(logprob <= 0 for logprob in single["rollout_log_probs"][begin:])  # noqa: S101
    several = await MultiTurnAgentExecutor(AgentInstance).execute(PROMPT, "14", sampling, 512, tokenizer, engine)
    await engine.aclose()
    (_, end_of_first), (begin_of_second, _) = several["action_ranges"]
    assert begin_of_second > end_of_first  # noqa: S101 - the environment's tokens lie between
    assert not any(several["rollout_log_probs"][end_of_first:begin_of_second])  # noqa: S101
    lengths = [last - first for first, last in [(begin, end), *several["action_ranges"]]]
    print(f"result: 1 turn of {lengths[0]} tokens, 2 turns of {lengths[1]} and {lengths[2]}, logprobs of each")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="Directory of the checkpoint that is served.")
    parser.add_argument("--endpoint", default="127.0.0.1:7700", help="host:port that `tlt up` prints.")
    options = parser.parse_args()
    asyncio.run(main(options.endpoint, str(options.model)))
