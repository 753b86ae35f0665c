"""Calls of tlt.rollout.v1."""

from typing import Any

from tests.hostile.case import SECRETS, At, Call
from tlt_common.wire.rollout import pb

MANY = 40_000
SCOPED = {scope: (("authorization", f"Bearer {secret}"),) for scope, secret in SECRETS.items()}


def prompt(**fields: object) -> pb.GenerateRequest:
    request = pb.GenerateRequest()
    request.prompt.token_ids.append(4)
    request.prompt.sampling.max_new_tokens = 2
    for name, value in fields.items():
        place = request.prompt.sampling if hasattr(request.prompt.sampling, name) else request.prompt
        if isinstance(value, list):
            del getattr(place, name)[:]
            getattr(place, name).extend(value)
        else:
            setattr(place, name, value)
    return request


def one(name: str, param: str, code: str = "INVALID_ARGUMENT", **fields: object) -> Call:
    return Call(
        name=f"Generate {name}", method="Generate", message=prompt(**fields).SerializeToString(), param=param, code=code
    )


def batch(name: str, param: str, count: int = 1, each: int = 1, **more: Any) -> Call:
    request = pb.GenerateBatchRequest(prompts=[prompt().prompt] * count, samples_per_prompt=each, **more)
    return Call(name=f"GenerateBatch {name}", method="GenerateBatch", message=request.SerializeToString(), param=param)


def nested(sampling: bytes) -> bytes:
    """Return a request whose sampling parameters are these bytes."""
    inner = b"\x1a" + varint(len(sampling)) + sampling
    return b"\x0a" + varint(len(inner)) + inner


def varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


NAN, INFINITE = float("nan"), float("inf")
CASES = [
    one("what is in order", "", "OK"),
    one("no tokens", "prompt.token_ids", token_ids=[]),
    one("a token above the vocabulary", "prompt.token_ids", token_ids=[2**31 - 1]),
    one("a negative token", "prompt.token_ids", token_ids=[-1]),
    one("100,000 tokens", "prompt.token_ids", token_ids=[4] * 10**5),
    one("a million wrong tokens", "prompt.token_ids", token_ids=[-5] * 10**6),
    one("a long prefix", "prompt.prefix_token_ids", prefix_token_ids=[4] * 10**5),
    one("a long id", "prompt.request_id", request_id="a" * 10**6),
    one("an id with NUL", "prompt.request_id", request_id="\0"),
    one("a long session", "prompt.session_id", session_id="a" * 10**6),
    one("a kind of speculation that is none", "prompt.speculation", speculation=77),
    one("a kind of logprobs that is none", "sampling.logprobs", logprobs=77),
    one("a negative attempt", "prompt.attempt", attempt=-1),
    one("a negative version", "prompt.policy_version", policy_version=-1),
    one("a version that is served, zero", "", "OK", policy_version=0),
    one("a version that nobody serves", "", "NOT_FOUND", policy_version=5),
    *(one(f"temperature {value}", "sampling.temperature", temperature=value) for value in (NAN, INFINITE, -INFINITE, -1.0, 1e38)),
    *(one(f"top_p {value}", "sampling.top_p", top_p=value) for value in (NAN, INFINITE, 0.0, -1.0, 1.1)),
    *(one(f"min_p {value}", "sampling.min_p", min_p=value) for value in (NAN, INFINITE, -1.0, 1.1)),
    *(one(f"top_k {value}", "sampling.top_k", top_k=value) for value in (-1, -(2**31))),
    *(one(f"max_new_tokens {value}", "sampling.max_new_tokens", max_new_tokens=value) for value in (0, -1, 2**31 - 1)),
    *(one(f"min_new_tokens {value}", "sampling.min_new_tokens", min_new_tokens=value) for value in (-1, 2**31 - 1)),
    *(one(f"repetition_penalty {value}", "sampling.repetition_penalty", repetition_penalty=value) for value in (NAN, 0.0, -1.0)),
    *(one(f"frequency_penalty {value}", "sampling.frequency_penalty", frequency_penalty=value) for value in (NAN, 3.0)),
    one("a negative seed", "sampling.seed", seed=-1),
    one("40,000 stop tokens", "sampling.stop_token_ids", stop_token_ids=[4] * MANY),
    one("40,000 stop strings", "sampling.stop", stop=["a"] * MANY),
    one("a long stop string", "sampling.stop", stop=["a" * 10**6]),
    batch("no prompts", "prompts", 0),
    batch("no samples", "samples_per_prompt", 1, 0),
    batch("fewer samples than none", "samples_per_prompt", 1, -(2**31)),
    batch("two billion samples", "samples_per_prompt", 1, 2**31 - 1),
    batch("a thousand times a thousand", "samples_per_prompt", 1000, 1000),
    batch("40,000 prompts", "prompts", MANY),
    batch("40,000 times the same sample", "prompts", 1, 1, samples=[pb.SampleStart()] * MANY),
    batch("a sample twice", "samples[1]", 1, 1, samples=[pb.SampleStart()] * 2),
    batch("a sample of another prompt", "samples[0].prompt_index", 1, 1, samples=[pb.SampleStart(prompt_index=5)]),
    batch("a negative sample", "samples[0].sample_index", 1, 1, samples=[pb.SampleStart(sample_index=-1)]),
    Call(name="four million empty prompts", method="GenerateBatch", message=b"\x0a\x00" * 2**22, param="request"),
    Call(name="a million empty stop strings", method="Generate", message=nested(b"\x72\x00" * 10**6), param="sampling.stop"),
    *(
        Call(name=f"{method} {name}", method=method, message=message, param="request")
        for method in ("Generate", "GenerateBatch", "Abort", "Pause")
        for name, message in (("bytes that are no message", b"\xff" * 100), ("half a message", b"\x0a\x7f\x00"), ("groups", b"\x0b" * 1000))
    ),
    *(
        Call(name=f"Abort of {name}", method="Abort", message=pb.AbortRequest(request_ids=ids).SerializeToString(), param=param, code="INVALID_ARGUMENT" if param else "OK")
        for name, ids, param in (
            ("an id of 15 MB", ["a" * 15 * 10**6], "request_ids[0]"),
            ("a long id among short ones", ["a", "b" * 321], "request_ids[1]"),
            ("40,000 ids", ["a"] * MANY, "request_ids"),
            ("an id with NUL", ["\0"], "request_ids[0]"),
            ("as many ids as may be", [f"{place:0320}" for place in range(2**13)], ""),
        )
    ),
    *(
        Call(name=f"an update with a {name}", method="UpdateWeights", message=pb.UpdateWeightsRequest(header=header).SerializeToString(), param=param)
        for name, header, param in (
            ("long key", pb.UpdateWeightsHeader(policy_version=1, key="a" * 10**6), "header.key"),
            ("long URI", pb.UpdateWeightsHeader(policy_version=1, source={"uri": "file:///" + "a" * 10**6}), "header.source.uri"),
        )
    ),
    Call(name="a pause without a mode", method="Pause", param="mode"),
    Call(name="a message above the limit", method="Generate", message=bytes(17 * 2**20), code="RESOURCE_EXHAUSTED"),
    Call(name="a method of gRPC that is none", method="Nothing", code="UNIMPLEMENTED"),
    *(
        Call(name=f"{method} by nobody", at=At.CLOSED, method=method, message=b"\xff" * 10**6, code="UNAUTHENTICATED", param="authorization")
        for method in ("Generate", "GenerateBatch", "Abort", "Pause", "Proceed", "GetServerInfo", "UpdateWeights")
    ),
    *(
        Call(name=f"{method} with the scope generate", at=At.CLOSED, method=method, metadata=SCOPED["generate"], code="PERMISSION_DENIED", param="authorization")
        for method in ("Pause", "Proceed")
    ),
    Call(name="Generate with the scope update_weights", at=At.CLOSED, method="Generate", message=prompt().SerializeToString(), metadata=SCOPED["update_weights"], code="PERMISSION_DENIED"),
    Call(name="one's own aborted with the scope generate", at=At.CLOSED, method="Abort", message=pb.AbortRequest(all=True).SerializeToString(), metadata=SCOPED["generate"], code="OK"),
    Call(name="Generate with a token", at=At.CLOSED, method="Generate", message=prompt().SerializeToString(), metadata=SCOPED["generate"], code="OK"),
]  # fmt: skip
