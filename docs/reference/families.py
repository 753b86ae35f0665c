"""docs/models.md: the table of model families, from the worker's own."""

from collections.abc import Iterable

from reference.markdown import cell, table
from tlt_worker.model.families import Family

INTRODUCTION = """# Models

For people who choose a policy: which models are served, and what each can do.

A worker checks `config.json` and the tensors' names and shapes before anything is loaded. What is not in this table is
refused by name, unless `engine.allow_unlisted` is set: then nothing of what follows is checked or tested, and memory is
not planned. `tlt engine check --set model=DIR` tells in seconds whether a checkpoint is served.

Every family passes the same suite (`make families`): a tiny checkpoint as transformers writes it, on a CPU in float32,
through the real engine: start; greedy tokens and log-probabilities against transformers; captured states against
transformers' hidden states; a drafter of each kind, trained by the spot trainer on captured states and served; one seed
under every arm; sampled responses against the exact distribution; and weight updates from a checkpoint, with a request
in flight, and as tensors. Log-probabilities are compared under two values of every key of config.json that is accepted
with several. Keys that SGLang ignores, and keys that nobody has tried, are refused by name: delete from config.json
what does not change what the model computes. Images, audio and video are refused, in requests and as a part of the
model.
"""
NOTES = """
Checkpoints are safetensors in bfloat16, float16 or float32, whole or in shards with an index, tied or not
(SGLang ties no head of a mixture of experts), with `config.json` as transformers 5 or 4 writes it. Ropes: default,
linear, llama3 and yarn. *arms* are those that can be used; trees are not verified where
layers attend to a sliding window, since SGLang counts the window in cache rows.
EAGLE and block drafters have dense layers, also for mixtures of experts. *mtp* is the head that a checkpoint brings
along to predict further tokens; where it is there, it is the first drafter
([how](drafters.md#prediction-heads-in-checkpoints)).
"""


def page(families: Iterable[Family]) -> str:
    """One row for each family."""
    rows = (
        (
            family.title,
            f"`{family.architecture}`",
            cell(family.models),
            "experts" if family.experts else "dense",
            ", ".join(map(str, family.drafters)),
            "all" if family.draws_trees else "no trees",
            "checkpoint, tensors",
            "yes",
            cell(family.note),
        )
        for family in families
    )
    head = (
        "family", "`architectures`", "models", "layers", "drafters, also trained", "arms", "weight updates",
        "memory plan", "notes",
    )  # fmt: skip
    return "\n".join((INTRODUCTION, table(head, rows), NOTES))
