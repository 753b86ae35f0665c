"""Versions that changes of weights are said to be of. The scripted worker serves version 0, and can change nothing."""

import base64
import pickle
from typing import Any

from tests.hostile.case import Case, refused

NAME = "base_version"
DISK: dict[str, Any] = {"model_path": "/nowhere"}
TENSOR: dict[str, Any] = {"serialized_named_tensors": [base64.b64encode(pickle.dumps([("a", 1)])).decode()]}
GROUP: dict[str, Any] = {"names": ["a"], "dtypes": ["float32"], "shapes": [[1]]}
CHANGED = (
    ("/update_weights_from_disk", DISK),
    ("/update_weights_from_tensor", TENSOR),
    ("/end_weight_update", {"parts": 1}),
)
NO_NUMBERS: tuple[Any, ...] = (
    True,
    False,
    1.5,
    -1,
    2**63,
    2**64,
    10**30,
    "",
    " 1",
    "1.0",
    "-1",
    "new",
    "\u0661",
    "1" * 10**6,
    [],
    [0],
    {},
    {"a": 1},
)
NOT_SERVED: tuple[Any, ...] = (1, 2, 2**40, "1", "0001", 2**62)
NO_PARTS: tuple[Any, ...] = (-1, 65537, 2**31, 2**64, True, 0.5, "0", [])
NO_BASES: tuple[Any, ...] = (0, "0", [], {})
NOWHERE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/update_weights_from_distributed", GROUP),
    ("/update_weights", {"weight_dir": "/nowhere"}),
    ("/fetch_weights", {"target_version": 3, "uri": "/nowhere"}),
    ("/start_weight_update", {}),
    ("/finish_weight_update", {}),
    ("/begin_weight_update", {}),
    ("/continue_generation", {}),
    ("/init_weights_update_group", {}),
    ("/destroy_weights_update_group", {}),
    ("/init_weight_transfer_engine", {}),
    ("/pause_generation", {}),
    ("/generate", {"input_ids": [4]}),
)

CASES = [
    *(case for path, body in CHANGED for case in refused(path, NAME, *({**body, NAME: value} for value in NO_NUMBERS))),
    *(
        case
        for path, body in CHANGED
        for case in refused(
            path, NAME, *({**body, NAME: value} for value in NOT_SERVED), status=409, within="served: 0", prefix=f"{path} upon another,"
        )
    ),
    *(case for path, body in NOWHERE for case in refused(path, NAME, *({**body, NAME: value} for value in NO_BASES))),
    *refused("/update_weights", f"update_info.{NAME}", {"update_info": {NAME: 0}}),
    *refused(
        "/update_weights_from_tensor",
        "part",
        *({**TENSOR, NAME: 0, "part": value} for value in (*NO_PARTS, 65536)),
        {**TENSOR, "part": 0},
    ),
    *refused("/update_weights_from_tensor", "weight_version", {**TENSOR, NAME: 0, "part": 0, "weight_version": 3}),
    *refused(
        "/end_weight_update",
        "parts",
        *({NAME: 0, "parts": value} for value in (*NO_PARTS, None, 0)),
        {NAME: 0},
        {"parts": 1},
    ),
    *refused("/end_weight_update", "weight_version", {"weight_version": 3}, {NAME: 0, "parts": 1, "weight_version": "a"}),
    Case(name="a whole update, base null", path="/update_weights_from_disk", body={**DISK, NAME: None, "weight_version": "a"}, param="weight_version"),
    Case(name="an end with nulls", path="/end_weight_update", body={NAME: None, "parts": None, "weight_version": None}, status=200),
    Case(name="a base beside a duplicate", path="/update_weights_from_disk", content=b'{"model_path": "/a", "base_version": 0, "base_version": 1}', param="body", within=NAME),
    Case(name="/pull_weights of slime", path="/pull_weights", body={"local_checkpoint_dir": "/a", "source_dir": "/b", "target_version": 0}, param="source_dir"),
]  # fmt: skip
