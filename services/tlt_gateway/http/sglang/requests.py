"""The body of SGLang's /generate, as prompts. Fields and defaults are those of GenerateReqInput and SamplingParams."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import Prompt, SamplingParams
from tlt_common.errors import InvalidRequestError
from tlt_gateway.http.bodies.body import Body, strings_of
from tlt_gateway.http.session import salt_of
from tlt_gateway.http.text.text import Text

NAMES = {
    "token_ids": "input_ids",
    "session_id": "X-SMG-Routing-Key",
    "request_id": "rid",
    "cache_salt": "cache_salt",
    "samples_per_prompt": "sampling_params.n",
    "sampling.seed": "sampling_params.sampling_seed",
    "sampling.": "sampling_params.",
    "routed_experts_start_len": "routed_experts_start_len",
    "routed_experts_start": "return_routed_experts",
}
"""Names of our fields in this protocol."""
TEXT_NAMES = {**NAMES, "token_ids": "text"}
"""Field names if the prompts were sent as text."""
DEFAULT_NEW_TOKENS = 128
ALL_TOKENS = 1 << 30
"""SGLang's top_k without a limit; -1 means the same."""


class SglangSampling(Body):
    """`sampling_params`."""

    path: ClassVar[str] = "sampling_params."
    unsupported: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "stop_regex": (None, [], ""),
        **dict.fromkeys(("json_schema", "regex", "ebnf", "structural_tag", "logit_bias", "watermark"), (None,)),
        "custom_params": (None, {}),
        "beam_width": (None, 1),
        "stream_interval": (None, 1),
        "spaces_between_special_tokens": (None, True, False),  # concerns tokenizers without a tokenizer.json
        "ebnf_full_assistant": (None, False),
    }

    max_new_tokens: int | None = DEFAULT_NEW_TOKENS
    stop_token_ids: list[int] | None = None
    stop: str | list[str] | None = None
    temperature: float | None = 1.0
    top_p: float | None = 1.0
    top_k: int | None = -1
    min_p: float | None = 0.0
    frequency_penalty: float | None = 0.0
    presence_penalty: float | None = 0.0
    repetition_penalty: float | None = 1.0
    min_new_tokens: int | None = 0
    n: int = 1
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    no_stop_trim: bool = False
    sampling_seed: int | None = None

    def params(self) -> SamplingParams:
        """
        Return our parameters.

        Raises:
            InvalidRequestError: A number is out of range.
        """
        return SamplingParams(
            max_new_tokens=self.max_new_tokens,
            stop_token_ids=tuple(self.stop_token_ids or ()),
            stop=strings_of(self.stop),
            temperature=_or(self.temperature, 1.0),
            top_p=_or(self.top_p, 1.0),
            top_k=0 if self.top_k in {None, -1, ALL_TOKENS} else self.top_k or 0,
            min_p=_or(self.min_p, 0.0),
            frequency_penalty=_or(self.frequency_penalty, 0.0),
            presence_penalty=_or(self.presence_penalty, 0.0),
            repetition_penalty=_or(self.repetition_penalty, 1.0),
            min_new_tokens=self.min_new_tokens or 0,
            ignore_eos=self.ignore_eos,
            seed=self.sampling_seed,
        )


_OFF = (
    "return_hidden_states", "return_indexer_topk", "use_audio_in_video", "background",
    "require_reasoning", "return_flat_raw_top_logprobs", "return_flat_raw_top_logprobs_b64",
    "return_flat_raw_output_top_logprobs", "return_sampling_mask", "return_bytes", "return_entropy",
)  # fmt: skip
_NONE = (
    "input_embeds", "mm_hashes", "mm_content_hashes", "video_config",
    "watermark", "sampling_logprobs_mode", "modalities", "session_params", "lora_id", "token_ids_logprob",
    "custom_logit_processor", "positional_embed_overrides", "bootstrap_host", "bootstrap_port", "bootstrap_room",
    "bootstrap_pair_key", "decode_tp_size", "routed_dp_rank", "data_parallel_rank", "disagg_prefill_dp_rank",
    "max_thinking_tokens", "priority", "session_id", "conversation_id", "routing_key",
    "custom_labels", "kv_hints", "encoder_urls", "external_trace_header", "http_worker_ipc", "images_config",
    "image_max_dynamic_patch", "max_dynamic_patch", "min_dynamic_patch", "video_max_dynamic_patch",
    "mm_processor_kwargs", "multi_item_delimiter_indices", "need_wait_for_mm_inputs", "num_items_assigned",
    "received_time", "token_indices_to_pool",
)  # fmt: skip


_LISTS = ("rid", "cache_salt", "extra_key", "lora_path", "sampling_params", "return_logprob", "logprob_start_len")
"""Fields that may have one value per prompt."""


class GenerateBody(Body):
    """The body of /generate."""

    unsupported: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        **dict.fromkeys(_OFF, (None, False)),
        **dict.fromkeys(_NONE, (None,)),
        **dict.fromkeys(("image_data", "video_data", "audio_data"), (None, [])),
        "top_logprobs_num": (None, 0),
        "log_metrics": (None, True),
        "no_logs": (None, True, False),  # neither prompts nor responses are ever logged
    }

    rid: str | list[str] | None = None
    cache_salt: str | list[str] | None = None
    extra_key: str | list[str] | None = None
    lora_path: str | list[str | None] | None = None
    text: str | list[str] | None = None
    input_ids: list[int] | list[list[int]] | None = None
    sampling_params: SglangSampling | list[SglangSampling] | None = None
    return_logprob: bool | list[bool] | None = None
    logprob_start_len: int | list[int] | None = None
    return_text_in_logprobs: bool = False
    return_prompt_token_ids: bool = False
    return_routed_experts: bool = False
    routed_experts_start_len: int = 0
    stream: bool = False

    @property
    def is_list(self) -> bool:
        """Whether the answer is a list."""
        many = isinstance(self.text, list) or bool(self.input_ids and isinstance(self.input_ids[0], list))
        return many or self.sampling(0).n > 1

    @property
    def count(self) -> int:
        """Number of prompts."""
        given = self.text if self.text is not None else self.input_ids
        return len(given) if isinstance(given, list) and given and isinstance(given[0], list | str) else 1

    def sampling(self, index: int) -> SglangSampling:
        """Return the parameters of a prompt."""
        if isinstance(self.sampling_params, list):
            return self.sampling_params[index] if index < len(self.sampling_params) else SglangSampling()
        return self.sampling_params or SglangSampling()

    def wants_logprobs(self, index: int) -> bool:
        """Return whether a prompt's answer includes log-probabilities."""
        return bool(self.return_logprob[index] if isinstance(self.return_logprob, list) else self.return_logprob)

    def logprob_start(self, index: int, length: int) -> int:
        """Return the first position of a prompt of this length that its answer has an entry for."""
        start = self.logprob_start_len
        start = start[index] if isinstance(start, list) else start
        return length if start is None or start == -1 or not self.wants_logprobs(index) else start

    async def prompts(self, text: Text, session: str = "") -> list[Prompt]:
        """
        Return the prompts.

        Raises:
            InvalidRequestError: A field is invalid, or lists have unequal lengths.
        """
        ids = await self._token_ids(text)
        if self.return_text_in_logprobs and not text.has_tokenizer:
            raise InvalidRequestError(
                "return_text_in_logprobs is True, and the gateway has no tokenizer (http.tokenizer); accepted: False",
                field="return_text_in_logprobs",
            )
        for name in _LISTS:
            value = getattr(self, name)
            if isinstance(value, list) and len(value) != len(ids):
                raise InvalidRequestError(
                    f"{name} has {len(value)} entries; accepted: one value, or {len(ids)}, one per prompt", field=name
                )
        if len({self.sampling(index).n for index in range(len(ids))}) > 1:
            raise InvalidRequestError(
                "sampling_params.n differs between prompts; accepted: one value for all", field="sampling_params.n"
            )
        for index, tokens in enumerate(ids):
            self._require_logprob_start(index, len(tokens))
            self._require_routed_start(len(tokens))
        return [
            Prompt(
                request_id=RequestId(self._name(index, len(ids))),
                token_ids=tuple(tokens),
                sampling=self.sampling(index).params(),
                session_id=session,
                cache_salt=salt_of(_at(self.cache_salt, index), _at(self.extra_key, index)),
                routed_experts_start=self.routed_experts_start_len if self.return_routed_experts else None,
                prompt_logprobs_start=self._prompt_logprobs_start(index, len(tokens)),
            )
            for index, tokens in enumerate(ids)
        ]

    def _name(self, index: int, count: int) -> str:
        if isinstance(self.rid, list):
            return self.rid[index]
        return f"{self.rid}_{index}" if self.rid and count > 1 else self.rid or ""

    async def _token_ids(self, text: Text) -> Sequence[Sequence[int]]:
        if (self.input_ids is None) == (self.text is None):
            raise InvalidRequestError("input_ids or text is required, and not both", field="input_ids")
        if self.text is not None:
            return await text.encoded([self.text] if isinstance(self.text, str) else self.text, field="text")
        ids: list[Any] = self.input_ids or []
        if ids and isinstance(ids[0], list):
            return ids
        return [ids]

    def _require_logprob_start(self, index: int, length: int) -> None:
        if not 0 <= (start := self.logprob_start(index, length)) <= length:
            raise InvalidRequestError(
                f"logprob_start_len is {start}; accepted: 0 to {length}, the length of the prompt, or -1, the same",
                field="logprob_start_len",
            )

    def _prompt_logprobs_start(self, index: int, length: int) -> int | None:
        # SGLang's first entry has no value, whatever its position.
        following = self.logprob_start(index, length) + 1
        return following if following < length else None

    def _require_routed_start(self, length: int) -> None:
        start = self.routed_experts_start_len
        if self.return_routed_experts and not 0 <= start <= length:
            accepted = f"0 to {length}, the length of the prompt"
        elif start and not self.return_routed_experts:
            accepted = "0 without return_routed_experts"
        else:
            return
        raise InvalidRequestError(
            f"routed_experts_start_len is {start}; accepted: {accepted}", field="routed_experts_start_len"
        )


def _at(given: str | list[str] | None, index: int) -> str | None:
    """Return the value for one prompt of a field that holds one value or one per prompt."""
    return given[index] if isinstance(given, list) else given


def _or(value: float | None, default: float) -> float:
    return default if value is None else value
