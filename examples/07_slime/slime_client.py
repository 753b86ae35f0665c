"""slime's own rollout code against the suite: a response that is aborted, as between two steps, and continued later."""

import argparse
import asyncio
import copy
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from slime.backends.sglang_utils.server_control import abort_servers_until_idle
from slime.rollout.sglang_rollout import GenerateState, generate
from slime.utils.http_utils import get, init_http_client
from slime.utils.types import Sample

NEW_TOKENS = 1500


def arguments(http: str, model: Path) -> argparse.Namespace:
    """Return those of slime's arguments that its rollout code reads."""
    address = urlsplit(http)
    return argparse.Namespace(
        hf_checkpoint=str(model), sglang_router_ip=address.hostname, sglang_router_port=address.port,
        sglang_server_concurrency=8, rollout_num_engines=1, use_distributed_post=False, sglang_dp_size=1,
        rollout_temperature=1.0, rollout_top_p=1.0, rollout_top_k=-1, rollout_max_response_len=NEW_TOKENS,
        rollout_stop=None, rollout_stop_token_ids=None, rollout_skip_special_tokens=False, rollout_seed=1,
        n_samples_per_prompt=1, ci_test=False, use_rollout_routing_replay=False, partial_rollout=True,
        mask_offpolicy_in_partial_rollout=False, sglang_speculative_algorithm="EAGLE",
    )  # fmt: skip


async def main(http: str, model: Path) -> None:
    """Generate, abort, continue, and check what the learner would receive."""
    args = arguments(http, model)
    init_http_client(args)
    params: dict[str, Any] = GenerateState(args).sampling_params | {"ignore_eos": True}
    sample = Sample(prompt="<bos> Numbers 2 5 7 . Target 14 .", index=0)
    generating = asyncio.create_task(generate(args, sample, copy.deepcopy(params)))
    await asyncio.sleep(1.5)
    await abort_servers_until_idle([worker["url"] for worker in (await get(f"{http}/workers"))["workers"]])
    sample = await generating
    before = sample.response_length
    assert sample.status == Sample.Status.ABORTED, sample.status  # noqa: S101
    assert 0 < before < NEW_TOKENS  # noqa: S101
    sample = await generate(args, sample, copy.deepcopy(params))
    assert sample.status == Sample.Status.TRUNCATED, sample.status  # noqa: S101 - as long as was asked for
    assert sample.response_length == len(sample.rollout_log_probs) == NEW_TOKENS  # noqa: S101
    print(
        f"result: {before} tokens before the abort, {NEW_TOKENS - before} after it, versions {sample.weight_versions}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="Directory of the checkpoint that is served.")
    parser.add_argument("--http", default="http://127.0.0.1:7703", help="URL of the suite's endpoint over HTTP.")
    options = parser.parse_args()
    asyncio.run(main(options.http, options.model))
