"""
Hidden states of a policy over collected responses, as an engine captures them.

Shapes: N states of a response, C elements of a captured state.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tlt_common.domain.hidden import CapturePolicy, FrameHeader, prompt_hash
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.recorded_rollouts import RecordedRollout
from tlt_trainer.data.frame import TrainingFrame

FRAME_TOKENS = CapturePolicy().frame_tokens


def frames_of(
    policy: Any, rollout: RecordedRollout, name: str, *, frame_tokens: int = FRAME_TOKENS, layers: Sequence[int] = ()
) -> list[TrainingFrame]:
    """
    Return the windows of a response, without those with prompt tokens only.

    Args:
        policy: A transformers model without its head.
        rollout: Prompt and response, at least two tokens in total.
        name: Request id of the frames.
        frame_tokens: Maximum states of a window.
        layers: Layers whose outputs precede the last state in every captured state: those an EAGLE-3 drafter reads.
    """
    states_NC = states_of(policy, rollout, layers=layers)
    return windows_of(states_NC, rollout, name, frame_tokens=frame_tokens, layers=layers)


@torch.inference_mode()
def states_of(policy: Any, rollout: RecordedRollout, *, layers: Sequence[int] = ()) -> Tensor:
    """Return the states of all tokens except the last, (N, C), bfloat16, on the CPU."""
    seen = policy(torch.tensor([rollout.token_ids[:-1]], device=policy.device), output_hidden_states=bool(layers))
    # transformers lists the embedding first, so entry n + 1 is what layer n makes.
    read = [seen.hidden_states[layer + 1][0] for layer in layers]
    return torch.cat((*read, seen.last_hidden_state[0]), dim=-1).bfloat16().cpu()


def windows_of(
    states_NC: Tensor, rollout: RecordedRollout, name: str, *, frame_tokens: int, layers: Sequence[int]
) -> list[TrainingFrame]:
    """Return the states of a response as windows; see `frames_of`."""
    ids, found = rollout.token_ids, []
    for start in range(0, len(ids) - 1, frame_tokens):
        end = min(start + frame_tokens, len(ids) - 1)
        if end - start < 2 or end <= len(rollout.prompt):
            continue
        header = FrameHeader(
            request_id=RequestId(name),
            policy_version=PolicyVersion(0),
            prompt_hash=prompt_hash(rollout.prompt),
            start=start,
            token_count=end - start,
            hidden_size=states_NC.shape[1],
            dtype="BF16",
            prompt_tokens=len(rollout.prompt),
            response_tokens=len(rollout.response),
            finished=end == len(ids) - 1,
            layers=tuple(layers),
        )
        token_ids = torch.tensor(ids[start : end + 1], dtype=torch.int32)
        found.append(TrainingFrame(header=header, token_ids=token_ids, hidden=states_NC[start:end]))
    return found
