"""What NeMo-RL is told of the suite, and asks of it. What needs NeMo-RL itself runs where its sources are."""

import inspect
import pickle
import sys
from collections.abc import Callable, Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from tests.fakes import nemo_rl as upstream
from tests.fakes.nemo_rl import BatchedDataDict, config_of
from tlt_common.client import LogprobKind
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.domain.response import FinishReason, TokenChunk
from tlt_common.errors import AbortedError, ConfigError, InvalidRequestError
from tlt_common.integrations.nemo_rl import TltGeneration, TltWeightSender, TltWeightSynchronizer, install
from tlt_common.integrations.nemo_rl.requests import output_of, rows_of, sampling_of
from tlt_common.integrations.nemo_rl.settings import TRANSPORT, connection_of, require_supported

PLACES = [
    (upstream.GenerationInterface, TltGeneration),
    (upstream.WeightSynchronizer, TltWeightSynchronizer),
    (upstream.CheckpointEngine, TltWeightSender),
]


@pytest.mark.parametrize(("interface", "ours"), PLACES)
def test_every_method_of_the_interface_takes_what_it_is_called_with(interface: type, ours: type) -> None:
    for name in interface.__abstractmethods__:  # type: ignore[attr-defined]
        theirs, found = getattr(interface, name), getattr(ours, name)
        assert isinstance(found, property) is isinstance(theirs, property), name
        if not isinstance(theirs, property):
            named = {one.name: one for one in inspect.signature(theirs).parameters.values()}
            calls = [one for one in named.values() if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
            positional = [one.name for one in calls if one.kind is not one.KEYWORD_ONLY]
            inspect.signature(found).bind(*positional, **{
                one.name: None for one in calls if one.kind is one.KEYWORD_ONLY
            })  # fmt: skip


def test_copies_in_other_processes_connect_by_themselves() -> None:
    original = TltGeneration(None, config_of("a:1"))
    original.weight_synchronizer = lambda: "not picklable"
    copy = pickle.loads(pickle.dumps(original))  # noqa: S301 - its own
    assert copy.cfg == original.cfg
    assert copy.weight_synchronizer is None


def test_the_connection_is_read_before_and_after_nemo_rl_has_validated_it() -> None:
    config = config_of("a:1")
    validated = SimpleNamespace(model_extra=config["refit_cfg"])
    assert connection_of(config) == connection_of(config | {"refit_cfg": validated})
    assert connection_of(config).endpoint == ("a:1",)
    with pytest.raises(ConfigError, match=r"refit_cfg\.tlt_suite\.nemo_rl:TltWeightSender\.endpoint is missing"):
        connection_of(config | {"refit_cfg": {}})
    with pytest.raises(ConfigError, match="adress: accepted: end"):
        connection_of(config | {"refit_cfg": {TRANSPORT: {"endpoint": "a:1", "adress": 1}}})


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"backend": "sglang"}, "backend: accepted: vllm"),
        ({"colocated": {"enabled": True}}, r"colocated\.enabled: accepted: false"),
        ({"refit_transport": None}, "refit_transport: accepted: tlt_suite"),
        ({"quant_cfg": "NVFP4"}, "quant_cfg: accepted: null"),
        ({"real_quant": True}, "quant_cfg: accepted: null"),
        ({"vllm_cfg": {"precision": "fp8"}}, r"vllm_cfg\.precision: accepted"),
        ({"vllm_cfg": {"kv_cache_dtype": "fp8_e4m3"}}, r"vllm_cfg\.kv_cache_dtype: accepted: auto"),
        ({"vllm_cfg": {"expose_http_server": True}}, r"vllm_cfg\.expose_http_server: accepted: false"),
        ({"vllm_cfg": {"video": {"num_frames": 8}}}, r"vllm_cfg\.video: accepted: null"),
        ({"vllm_kwargs": {"speculative_config": {"method": "eagle"}}}, r"vllm_kwargs\.speculative_config"),
        ({"vllm_kwargs": {"enable_return_routed_experts": True}}, r"vllm_kwargs\.enable_return_routed_experts"),
    ],
)
def test_settings_that_cannot_be_honored_are_named(change: Mapping[str, Any], field: str) -> None:
    require_supported(config_of("a:1"))
    with pytest.raises(ConfigError, match=r"policy\.generation\." + field):
        TltGeneration(None, config_of("a:1", **change))


@pytest.mark.parametrize(
    ("change", "message"),
    [({"bad_words": ["x"]}, "bad_words is"), ({"top_p": 2.0}, "top_p"), ({"temperature": -1.0}, "temperature")],
)
def test_sampling_parameters_are_checked_before_gpus_are_taken(change: Mapping[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        TltGeneration(None, config_of("a:1", **change))


def test_nemo_gym_and_other_ways_of_sending_weights_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"env\.should_use_nemo_gym: accepted: false"):
        TltGeneration(None, config_of("a:1"), defer_model_load=True)
    generation = TltGeneration(None, config_of("a:1"))
    calls: list[Callable[[], object]] = [
        lambda: generation.init_collective("h", 1, 2, train_world_size=1),
        generation.update_weights_from_collective,
        generation.update_weights_via_ipc_zmq,
        generation.get_collective_sender_spec,
        lambda: generation.prepare_nccl_reshard_refit_info({}),
        generation.nccl_reshard_refit,
    ]
    for call in calls:
        with pytest.raises(ConfigError, match=r"policy\.generation\.refit_transport: accepted: tlt_suite"):
            call()
    with pytest.raises(ConfigError, match="generation_fleet_health"):
        generation.attach_fleet_health(None, None)


def test_a_policy_with_a_draft_model_and_scales_of_a_cache_are_refused() -> None:
    generation = TltGeneration(None, config_of("a:1"))
    with pytest.raises(ConfigError, match=r"policy\.draft\.enabled: accepted: false"):
        TltWeightSynchronizer(upstream.Policy(lambda: iter(()), draft={"enabled": True}), generation)
    synchronizer = TltWeightSynchronizer(upstream.Policy(lambda: iter(()), draft={"enabled": False}), generation)
    with pytest.raises(ConfigError, match=r"kv_cache_dtype: accepted: auto"):
        synchronizer.sync_weights(kv_scales={"layer": 1.0})


async def test_vllms_own_workers_do_not_receive_by_this_transport() -> None:
    engine = TltWeightSender(0, endpoint="a:1")
    with pytest.raises(ConfigError, match="install"):
        engine.init_rollout_process_group(rollout_rank=0)
    with pytest.raises(ConfigError, match="install"):
        await anext(engine.receive_weight_batches())


def test_an_algorithm_is_changed_as_a_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, part = ModuleType("whole"), ModuleType("part")
    whole.VllmGeneration = part.VllmGeneration = object  # type: ignore[attr-defined]
    whole.create_weight_synchronizer = object()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "whole", whole)
    monkeypatch.setitem(sys.modules, "part", part)
    install("whole")
    assert whole.VllmGeneration is TltGeneration
    generation = whole.VllmGeneration(cluster=None, config=config_of("a:1"))
    made = whole.create_weight_synchronizer(
        policy=upstream.Policy(lambda: iter(())), generation=generation, generation_backend="vllm", colocated=False
    )
    assert isinstance(made, TltWeightSynchronizer)
    assert made.is_stale
    with pytest.raises(ConfigError, match="part has no create_weight_synchronizer"):
        install("part")
    assert part.VllmGeneration is object


def batch(**columns: Any) -> BatchedDataDict:
    ids = torch.tensor([[3, 10, 0], [3, 12, 5]])
    return BatchedDataDict({"input_ids": ids, "input_lengths": torch.tensor([2, 3])} | columns)


def test_rows_keep_their_stop_strings_and_the_room_that_the_context_leaves() -> None:
    config = config_of("a:1", stop_strings=["both"])
    first, second = rows_of(batch(stop_strings=[None, ["own", "both"]]), config, greedy=False, context_length=5)
    assert (first.prompt, second.prompt) == ((3, 10), (3, 12, 5))
    assert first.sampling is not None
    assert second.sampling is not None
    assert (first.sampling.stop, second.sampling.stop) == (("both",), ("both", "own"))
    assert (first.sampling.max_new_tokens, second.sampling.max_new_tokens) == (3, 2)
    assert first.sampling.stop_token_ids == (99,)
    assert [row.sampling for row in rows_of(batch(), config, greedy=False, context_length=2)] == [None, None]


@pytest.mark.parametrize(
    ("mode", "change", "greedy", "kind"),
    [
        ("processed_logprobs", {}, False, LogprobKind.POLICY),
        ("processed_logprobs", {"top_k": -1}, False, LogprobKind.POLICY),
        ("processed_logprobs", {"top_k": 20}, False, LogprobKind.TRUNCATED),
        ("processed_logprobs", {"top_p": 0.9}, False, LogprobKind.TRUNCATED),
        ("processed_logprobs", {"top_p": 0.9}, True, LogprobKind.POLICY),
        ("raw_logprobs", {"top_p": 0.9}, False, LogprobKind.RAW),
        (None, {}, False, LogprobKind.RAW),
    ],
)
def test_logprobs_are_those_that_vllm_would_return(
    mode: str | None, change: Mapping[str, Any], greedy: bool, kind: LogprobKind
) -> None:
    config = config_of("a:1", **change, vllm_cfg={"logprobs_mode": mode})
    sampling = sampling_of(config, None, max_new_tokens=4, greedy=greedy)
    assert sampling.logprobs is kind
    assert sampling.temperature == (0.0 if greedy else 1.0)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"vllm_content": [None, "text with an <image>"]}, "vllm_content is in the batch"),
        ({"vllm_images": [[], [object()]]}, "vllm_images"),
        ({"pixel_values": torch.zeros(2, 3)}, "pixel_values"),
        (
            {"input_lengths": torch.tensor([3, 3]), "input_ids": torch.tensor([[3, 10, 5], [3, 12, 5]])[:1]},
            "1 row|shape",
        ),
        ({"input_lengths": torch.tensor([1, 3])}, "row 0 of input_ids has 3 tokens and the length 1"),
        ({"input_lengths": torch.tensor([2, 4])}, "row 1"),
    ],
)
def test_batches_of_more_than_text_or_of_another_padding_are_refused(columns: dict[str, Any], message: str) -> None:
    empty = {"vllm_content": [None, None], "vllm_images": [[], []], "token_type_ids": torch.zeros(2, 3)}
    assert len(rows_of(batch(**empty), config_of("a:1"), greedy=False, context_length=9)) == 2
    with pytest.raises(InvalidRequestError, match=message):
        rows_of(batch(**columns), config_of("a:1"), greedy=False, context_length=9)


def response(*tokens: int, reason: FinishReason = FinishReason.STOP) -> TokenChunk:
    return TokenChunk(
        request_id=RequestId("r"),
        token_ids=tokens,
        logprobs=tuple(-token / 128 for token in tokens),
        policy_versions=(PolicyVersion(0),) * len(tokens),
        finish_reason=reason,
    )


def test_responses_have_the_form_of_nemo_rl() -> None:
    output = output_of(batch(), [response(11, 12), None], pad=0)
    assert type(output) is BatchedDataDict
    assert output["output_ids"].tolist() == [[3, 10, 11, 12], [3, 12, 5, 0]]
    assert output["logprobs"].tolist() == [[0, 0, -11 / 128, -12 / 128], [0, 0, 0, 0]]
    assert output["generation_lengths"].tolist() == [2, 0]
    assert output["unpadded_sequence_lengths"].tolist() == [4, 3]
    assert output["truncated"].tolist() == [False, True]
    with pytest.raises(AbortedError, match="r was aborted"):
        output_of(batch(), [response(11, reason=FinishReason.ABORT), None], pad=0)


def test_a_batch_without_rows_has_a_result_without_rows() -> None:
    nothing = BatchedDataDict({"input_ids": torch.zeros((0, 0), dtype=torch.long), "input_lengths": torch.zeros(0)})
    output = output_of(nothing, [], pad=0)
    assert {name: tuple(value.shape) for name, value in output.items()} == {
        "output_ids": (0, 0), "logprobs": (0, 0), "generation_lengths": (0,), "unpadded_sequence_lengths": (0,),
        "truncated": (0,),
    }  # fmt: skip
