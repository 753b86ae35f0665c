"""Numbers by which a small request would become a large one, and lists that are longer than anything takes."""

from typing import Any

from tests.hostile.case import Call, Case, accepted, refused
from tlt_common.wire.rollout import pb

HUGE = (10**9, 2**31, 2**63, 2**64, 10**30, 10**300, -1, -(10**9), 0)
WRONG = (True, 1.0, 1.5, "1", [1], {"a": 1})
CHAT = {"messages": [{"role": "user", "content": "a"}]}
MANY = 40_000

QUEUE = 32_768
"""Requests that the queue holds."""
LONG = [4] * 4000
"""A prompt that almost fills the context."""


def announced(
    name: str, param: str, prompts: list[list[int]], each: int = 1, *, code: str = "INVALID_ARGUMENT"
) -> Call:
    request = pb.AnnounceRequest(prompts=[_prompt(ids) for ids in prompts], samples_per_prompt=each)
    message = request.SerializeToString()
    return Call(name=f"Announce {name}", method="Announce", message=message, code=code, param=param)


def begun(name: str, tokens: list[int], *, times: int = 1) -> Call:
    """Return a batch of one prompt whose samples have begun, each with a token."""
    starts = [
        pb.SampleStart(prompt_index=0, sample_index=place, prefix_token_ids=[token] * times)
        for place, token in enumerate(tokens)
    ]
    request = pb.GenerateBatchRequest(prompts=[_prompt(LONG)], samples_per_prompt=QUEUE, samples=starts)
    field = "prompts[0].prefix_token_ids"
    return Call(name=f"GenerateBatch {name}", method="GenerateBatch", message=request.SerializeToString(), param=field)


def _prompt(ids: list[int]) -> Any:
    message = pb.GenerateRequest()
    message.prompt.token_ids.extend(ids)
    message.prompt.sampling.max_new_tokens = 2
    return message.prompt


CASES = [
    *refused("/v1/completions", "n", *({"prompt": [4], "n": n} for n in (*HUGE, *WRONG))),
    *refused("/v1/chat/completions", "n", *({**CHAT, "n": n} for n in (*HUGE, *WRONG))),
    *refused(
        "/generate", "sampling_params.n", *({"input_ids": [4], "sampling_params": {"n": n}} for n in (*HUGE, *WRONG))
    ),
    *refused(
        "/inference/v1/generate",
        "sampling_params.n",
        *({"token_ids": [4], "sampling_params": {"n": n}} for n in (*HUGE, *WRONG)),
    ),
    *refused("/v1/completions", "best_of", *({"prompt": [4], "best_of": n} for n in (*HUGE, 2, "2"))),
    *refused("/v1/chat/completions", "best_of", {**CHAT, "best_of": 10**9}),
    *refused("/v1/completions", "max_tokens", *({"prompt": [4], "max_tokens": n} for n in HUGE)),
    *refused("/v1/chat/completions", "max_tokens", *({**CHAT, "max_tokens": n} for n in HUGE)),
    *refused(
        "/generate",
        "sampling_params.max_new_tokens",
        *({"input_ids": [4], "sampling_params": {"max_new_tokens": n}} for n in HUGE),
    ),
    *refused("/v1/completions", "logprobs", *({"prompt": [4], "logprobs": n} for n in (5, 10**9, -1, "all"))),
    *refused("/v1/chat/completions", "top_logprobs", *({**CHAT, "top_logprobs": n} for n in (5, 10**9, -1))),
    *refused("/generate", "top_logprobs_num", {"input_ids": [4], "top_logprobs_num": 10**9}),
    *refused("/generate", "token_ids_logprob", {"input_ids": [4], "token_ids_logprob": list(range(MANY))}),
    *refused(
        "/generate",
        "sampling_params.",
        {"input_ids": [4], "sampling_params": {"logit_bias": {str(token): 1.0 for token in range(MANY)}}},
        {"input_ids": [4], "sampling_params": {"beam_width": 10**9}},
        {"input_ids": [4], "sampling_params": {"custom_params": {"a": "b" * MANY}}},
        {"input_ids": [4], "sampling_params": {"stop": ["a"] * MANY}},
        {"input_ids": [4], "sampling_params": {"stop": "a" * MANY}},
        {"input_ids": [4], "sampling_params": {"stop": [""]}},
        {"input_ids": [4], "sampling_params": {"stop_token_ids": list(range(MANY))}},
        {"input_ids": [4], "sampling_params": {"regex": "(a+)+" * 1000}},
        {"input_ids": [4], "sampling_params": {"min_new_tokens": 10**9}},
        {"input_ids": [4], "sampling_params": {"top_k": 10**30}},
        {"input_ids": [4], "sampling_params": {"sampling_seed": 10**30}},
    ),
    *refused(
        "/v1/completions",
        "",
        {"prompt": [4], "logit_bias": {str(token): 1 for token in range(MANY)}},
        {"prompt": [4], "stop": ["a"] * MANY},
        {"prompt": [4], "stop_token_ids": [1] * MANY},
        {"prompt": [4], "bad_words": ["a"] * MANY},
        {"prompt": [4], "seed": 10**30},
        prefix="/v1/completions lists",
    ),
    *refused("/v1/completions", "prompt", {"prompt": [[4]] * MANY}, {"prompt": ["a"] * MANY}, {"prompt": "a" * 10**6}),
    *refused("/v1/completions", "n", {"prompt": [[4]] * 1000, "n": 1000}, {"prompt": ["a"] * 1000, "n": 10**9}),
    *refused(
        "/generate", "input_ids", {"input_ids": [[4]] * MANY}, {"input_ids": [4] * 10**5}, {"input_ids": [[4] * 10**5]}
    ),
    *refused("/generate", "text", {"text": ["a"] * MANY}, {"text": "a" * 10**6}),
    *refused("/generate", "rid", {"input_ids": [4], "rid": ["a"] * MANY}, {"input_ids": [4], "rid": "a" * 10**6}),
    *refused(
        "/generate",
        "sampling_params",
        {"input_ids": [[4], [5]], "sampling_params": [{"n": 2}] * MANY},
        {"input_ids": [[4], [5]], "sampling_params": [{"n": 2}, {"n": 3}]},
        {"input_ids": [[4], [5]], "sampling_params": [{"n": 10**9}] * 2},
    ),
    *refused("/inference/v1/generate", "token_ids", {"token_ids": [4] * 10**5, "sampling_params": {}}),
    *refused("/detokenize", "tokens", {"tokens": [10**9]}, {"tokens": [-1]}, {"tokens": [2**64]}),
    Case(
        name="as many samples as the queue holds, of a prompt that is refused",
        body={"input_ids": [10**6], "sampling_params": {"n": 32_768}},
        param="input_ids",
    ),
    Case(
        name="an update of many tensors without their types",
        path="/update_weights_from_distributed",
        body={"names": ["a"] * MANY, "dtypes": [], "shapes": []},
        param="dtypes",
    ),
    *refused(
        "/update_weights_from_distributed",
        "",
        {"names": ["a"], "dtypes": ["float32"], "shapes": [[-1] * MANY]},
        {"names": [*map(str, range(100_000)), "a", "a"], "dtypes": ["float32"] * 100_002, "shapes": [[1]] * 100_002},
        {"names": ["a" * 10**6], "dtypes": ["x"], "shapes": [[1]]},
    ),
    Case(
        name="a group of a billion ranks",
        path="/init_weights_update_group",
        body={"master_address": "a", "master_port": 1, "rank_offset": 1, "world_size": 10**30},
        param="world_size",
    ),
    *refused("/announce", "sampling_params.n", {"input_ids": [4], "sampling_params": {"n": 10**9}}),
    *refused("/announce", "input_ids", {"input_ids": [[4]] * MANY}),
    *accepted(
        "/announce", {"input_ids": LONG}, {"sampling_params": {"n": QUEUE, "max_new_tokens": 8}}, within='"workers":1'
    ),
    announced("as many samples as the queue holds, of a long prompt", "", [LONG], QUEUE, code="OK"),
    announced("one sample more", "samples_per_prompt", [LONG], QUEUE + 1),
    announced("two billion samples", "samples_per_prompt", [[4]], 2**31 - 1),
    announced("fewer samples than none", "", [[4]], -(2**31), code="OK"),
    announced("40,000 prompts", "prompts", [[4]] * MANY),
    announced("30,000 prompts of which the last is wrong", "prompts[29999].token_ids", [[4]] * 29_999 + [[-1]]),
    announced("nothing, so that it is forgotten", "", [], 1, code="OK"),
    begun("as many beginnings of a long prompt as the queue holds, the last of them wrong", [4] * (QUEUE - 1) + [-1]),
    begun("beginnings that leave no token to generate", [4], times=2),
]
