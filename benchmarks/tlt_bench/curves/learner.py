"""The learner of the own loop: plain torch. Synchronous; used by one thread at a time."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import LlamaForCausalLM

from countdown.model import CHECKPOINT, LAYERS, SERVED_LAYERS, deepen_state
from tlt_bench.curves.episode import CurveEpisode
from tlt_bench.curves.kind import Kind
from tlt_bench.curves.loss import Step, loss_of

RATE = 5e-5


class CurveLearner:
    """The demo's policy, and how it learns."""

    def __init__(self, kind: Kind, *, samples: int) -> None:
        torch.set_num_threads(1)  # the other cores are the engines'
        self._kind, self._samples = kind, samples
        self._policy = LlamaForCausalLM.from_pretrained(CHECKPOINT, dtype=torch.float32)
        self._optimizer = torch.optim.AdamW(self._policy.parameters(), lr=RATE, weight_decay=0.0)

    def served(self) -> dict[str, Tensor]:
        """Return the weights that engines serve; copies."""
        state = {name: tensor.detach().clone() for name, tensor in self._policy.state_dict().items()}
        return deepen_state(state, from_layers=LAYERS, to_layers=SERVED_LAYERS)

    def learn(self, episodes: Sequence[CurveEpisode]) -> None:
        """Make one optimizer step; the samples of a prompt are next to each other."""
        rows = [torch.tensor([*episode.prompt, *episode.token_ids]) for episode in episodes]
        tokens_BT = pad_sequence(rows, batch_first=True)
        mask_BT = pad_sequence([_behind(one, torch.tensor(one.sampled)) for one in episodes], batch_first=True)
        engine_BT = pad_sequence([_behind(one, torch.tensor(one.logprobs)) for one in episodes], batch_first=True)
        logprobs_BTV = self._policy(tokens_BT[:, :-1]).logits.float().log_softmax(-1)
        step = Step(
            logprobs=logprobs_BTV.gather(2, tokens_BT[:, 1:, None])[..., 0],
            engine=engine_BT[:, 1:],
            mask=mask_BT[:, 1:],
            rewards=torch.tensor([episode.reward for episode in episodes]),
            samples=self._samples,
        )
        torch.autograd.backward(loss_of(self._kind, step))
        torch.nn.utils.clip_grad_norm_(self._policy.parameters(), 1.0)
        self._optimizer.step()
        self._optimizer.zero_grad()


def _behind(episode: CurveEpisode, values: Tensor) -> Tensor:
    """Return values behind the prompt's, which are zero."""
    return torch.cat((torch.zeros(len(episode.prompt), dtype=values.dtype), values))
