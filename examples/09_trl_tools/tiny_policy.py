"""A policy of few words that calls tools about half of the time, made from the suite's tiny checkpoint in seconds."""

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")
"""Their ids are those of the checkpoint, so that the engines end responses at the end token."""
MARKS = ("<user>", "<policy>", "<tool>", "<call>", "</call>")
NUMBERS = tuple(map(str, range(20)))
WORDS = (*SPECIALS, *MARKS, *NUMBERS, "look", "press", "number", "drawer", "safe", "right", "wrong", "done")
TEMPLATE = (
    "{%- for message in messages %}"
    "{%- if message.role == 'assistant' %}<policy> {{ message.content or '' }}"
    "{%- for call in message.tool_calls or [] %}"
    " <call> {{ call.function.name }}"
    "{%- for name, value in call.function.arguments.items() %} {{ name }} {{ value }}{%- endfor %} </call>"
    "{%- endfor %} <eos> "
    "{%- else %}{{ '<tool>' if message.role == 'tool' else '<user>' }} {{ message.content }} {% endif %}"
    "{%- endfor %}{%- if add_generation_prompt %}<policy>{%- endif %}"
)

STEPS = 120
BATCH = 32
RATE = 1e-3


def response_template(tool: str) -> dict[str, Any]:
    """Return how Transformers parses a response that calls the tool with one number."""
    arguments = {"number": "{content}"}
    return {
        "defaults": {"role": "assistant"},
        "start_anchor": "<policy>",
        "fields": {
            "tool_calls": {
                "open": f"<call> {tool} number", "close": "</call>", "repeats": True, "content": "text",
                "transform": {"type": "function", "function": {"name": tool, "arguments": arguments}},
            },
            "content": {"close": "<eos>", "content": "text"},
        },
    }  # fmt: skip


def tokenizer_of(tool: str) -> Any:
    """Return a tokenizer whose chat template renders calls of the tool, and parses them."""
    words = Tokenizer(WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="<unk>"))  # noqa: S106
    words.pre_tokenizer = WhitespaceSplit()
    names = dict(zip(("pad_token", "bos_token", "eos_token", "unk_token"), SPECIALS, strict=True))
    tokenizer: Any = PreTrainedTokenizerFast(tokenizer_object=words, **names)  # type: ignore[no-untyped-call,unused-ignore]
    tokenizer.chat_template, tokenizer.response_template = TEMPLATE, response_template(tool)
    return tokenizer


def warmed(model: str, tokenizer: Any, texts: Iterable[Sequence[tuple[str, bool]]]) -> Any:
    """
    Return the checkpoint's model after it has imitated texts.

    Args:
        model: Directory of the checkpoint.
        tokenizer: The tokenizer.
        texts: Each in parts, with whether a part is imitated or is context.
    """
    torch.manual_seed(0)
    policy: Any = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=RATE, weight_decay=0.0)
    rows = [_row(tokenizer, parts) for parts in texts]
    order = Random(0)
    for step in range(STEPS):
        batch = order.sample(rows, BATCH)
        ids_BT = torch.nn.utils.rnn.pad_sequence([ids for ids, _ in batch], batch_first=True)
        labels_BT = torch.nn.utils.rnn.pad_sequence([labels for _, labels in batch], True, -100)
        for group in optimizer.param_groups:
            group["lr"] = RATE * (1 - step / STEPS)
        loss = policy(input_ids=ids_BT, labels=labels_BT).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return policy


def _row(tokenizer: Any, parts: Sequence[tuple[str, bool]]) -> tuple[torch.Tensor, torch.Tensor]:
    ids: list[int] = []
    labels: list[int] = []
    for text, is_imitated in parts:
        new = tokenizer(text)["input_ids"]
        ids += new
        labels += new if is_imitated else [-100] * len(new)
    return torch.tensor(ids), torch.tensor(labels)
