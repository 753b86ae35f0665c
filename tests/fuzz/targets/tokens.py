"""Files of bearer tokens."""

from hypothesis import strategies as st

from tests.fuzz import json_texts, yaml_texts
from tests.fuzz.files import file_target
from tlt_common.errors import ConfigError
from tlt_common.rpc.security.tokens import read

_VALID = {
    "tokens": [
        {"name": "a", "token": "0123456789abcdef", "scopes": ["generate"], "expires_at": "2027-01-01T00:00:00Z"},
        {"name": "b", "sha256": "0" * 64, "scopes": ["admin"]},
    ]
}

TARGETS = (
    file_target(
        "tokens",
        st.one_of(json_texts.texts(_VALID), yaml_texts.texts(_VALID)),
        read,
        file="tokens.yaml",
        refusals=ConfigError,
    ),
)
