"""A tokenizer with a chat template, in the directory of a model without weights."""

import json
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

END = "<|im_end|>"
SPECIAL = ["<|endoftext|>", "<|im_start|>", END]
CORPUS = ["the weather in Paris is sunny and 21 degrees", 'user system assistant tool {"city": "Paris"} get_weather']
TEMPLATE = """\
{%- if tools %}<|im_start|>system
{% for tool in tools %}{{ tool.function | tojson }}
{% endfor %}<|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{% generation %}{{ message.content }}
{%- for call in message.tool_calls or [] %}
<tool_call>
{{ {"name": call.function.name, "arguments": call.function.arguments} | tojson }}
</tool_call>
{%- endfor %}{% endgeneration %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{{ opening or "" }}{% endif %}"""
"""In the manner of ChatML."""


def write_chat_model(directory: Path, template: str | None = TEMPLATE) -> Tokenizer:
    """Write tokenizer and template; return the tokenizer. It has 256 bytes, and a few pieces of words."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(  # type: ignore[no-untyped-call]
        vocab_size=300,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(directory / "tokenizer.json"))
    (directory / "tokenizer_config.json").write_text(json.dumps({"eos_token": END}))
    if template is not None:
        (directory / "chat_template.jinja").write_text(template)
    return tokenizer


class Script:
    """The responses of a fake worker, one request after the other."""

    def __init__(self, *responses: Iterable[int]) -> None:
        self._rest = deque(list(response) for response in responses)
        self._now: deque[int] = deque()

    def __call__(self, _tokens: Sequence[int]) -> int:
        if not self._now:
            self._now.extend(self._rest.popleft())
        return self._now.popleft()
