"""Token files."""

from pathlib import Path

import yaml

SECRETS = {
    "trainer": "trainer-secret-0123456789",
    "reader": "reader-secret-0123456789",
    "observer": "observer-secret-0123456789",
    "operator": "operator-secret-0123456789",
    "former": "former-secret-0123456789",
}
TOKENS: list[dict[str, object]] = [
    {"name": "trainer", "token": SECRETS["trainer"], "scopes": ["generate", "update_weights"]},
    {"name": "reader", "token": SECRETS["reader"], "scopes": ["generate"]},
    {"name": "observer", "token": SECRETS["observer"], "scopes": ["observe"]},
    {"name": "operator", "token": SECRETS["operator"], "scopes": ["admin"]},
    {"name": "former", "token": SECRETS["former"], "scopes": ["admin"], "expires_at": "2020-01-01T00:00:00Z"},
]


def write(path: Path, tokens: list[dict[str, object]] | None = None) -> Path:
    """Write a token file, by default with the tokens above."""
    path.write_text(yaml.safe_dump({"tokens": TOKENS if tokens is None else tokens}))
    return path
