"""A policy and a tokenizer that fit the fake workers."""

from typing import Any, cast

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

VOCAB = 40
# The fakes count up from the last word. A conversation ends in w5, so that each turn is w6 w7 w8 w9: one tool call.
TEMPLATE = (
    "{%- for message in messages %}"
    "{%- if message.role == 'assistant' %}{{ message.content or '' }}"
    "{%- for call in message.tool_calls or [] %} w6 {{ call.function.name }} {{ call.function.arguments | tojson }} w8"
    "{%- endfor %} <eos> {% else %}{{ message.content }} {% endif %}"
    "{%- endfor %}{%- if add_generation_prompt %}w5{%- endif %}"
)
RESPONSE: dict[str, Any] = {
    "defaults": {"role": "assistant"},
    "start_anchor": "w5",
    "fields": {
        "tool_calls": {
            "open": "w6", "close": "w8", "repeats": True, "content": "text",
            "transform": {"type": "function", "function": {"name": "look", "arguments": {"word": "{content}"}}},
        },
        "content": {"close": "<eos>", "content": "text"},
    },
}  # fmt: skip


def word_tokenizer() -> Any:
    """Return a tokenizer whose token 7 is the word w7; 0 pads and 1 ends."""
    words = {"<pad>": 0, "<eos>": 1} | {f"w{i}": i for i in range(2, VOCAB)}
    backend = Tokenizer(WordLevel(words, unk_token="<pad>"))  # noqa: S106 - a word of the vocabulary
    backend.pre_tokenizer = WhitespaceSplit()
    return cast(Any, PreTrainedTokenizerFast)(tokenizer_object=backend, pad_token="<pad>", eos_token="<eos>")  # noqa: S106


def chat_tokenizer() -> Any:
    """Return the tokenizer with a chat template that renders calls of the tool `look`, and parses them."""
    tokenizer = word_tokenizer()
    tokenizer.chat_template, tokenizer.response_template = TEMPLATE, RESPONSE
    return tokenizer


def small_model() -> Any:
    """Return a model of that vocabulary, the same each time."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCAB, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=64, eos_token_id=1, pad_token_id=0, tie_word_embeddings=True,
    )  # fmt: skip
    return cast(Any, LlamaForCausalLM)(config)
