"""Token files, reloaded when they change, and token scopes."""

import hmac
from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

from pydantic import AwareDatetime, Field, SecretStr, ValidationError, field_validator, model_validator

from tlt_common.config.base import Frozen
from tlt_common.documents import yaml_of
from tlt_common.errors import ConfigError
from tlt_common.rpc.security.reloaded import Reloaded, read_bytes

MIN_CHARACTERS = 16
"""Shorter tokens can be guessed."""


class Scope(StrEnum):
    """Permission of a token."""

    GENERATE = "generate"
    """Generate responses and abort the caller's own requests."""
    UPDATE_WEIGHTS = "update_weights"
    """Update the weights, pause generation and abort the requests of all callers."""
    OBSERVE = "observe"
    """Read the coordinator's HTTP API and status page."""
    ADMIN = "admin"
    """All calls."""


class Token(Frozen):
    """A token and its permissions."""

    name: str = Field(min_length=1)
    """Name of the holder, for logs."""
    token: SecretStr | None = None
    """The secret; null if `sha256` is given."""
    sha256: str | None = Field(None, pattern="^[0-9a-fA-F]{64}$")
    """SHA-256 of the secret in hex, so that the file does not contain the secret; null if `token` is given."""
    scopes: tuple[Scope, ...] = Field(min_length=1)
    """Permissions."""
    weight: float = Field(1.0, gt=0, le=1000)
    """Share of slots for the holder's queued requests, relative to the weights of other holders."""
    expires_at: AwareDatetime | None = None
    """Time from which the token is refused; null never expires it."""

    @field_validator("token")
    @classmethod
    def _hard_to_guess(cls, token: SecretStr | None) -> SecretStr | None:
        if token is not None and len(token.get_secret_value()) < MIN_CHARACTERS:
            raise ValueError(f"is shorter than {MIN_CHARACTERS} characters")
        return token

    @model_validator(mode="after")
    def _one_secret(self) -> "Token":
        if (self.token is None) == (self.sha256 is None):
            raise ValueError("needs token or sha256, and not both")
        return self

    @property
    def digest(self) -> bytes:
        """SHA-256 of the secret."""
        if self.token is not None:
            return sha256(self.token.get_secret_value().encode()).digest()
        return bytes.fromhex(self.sha256 or "")

    def allows(self, scope: Scope) -> bool:
        """Whether the token has a scope."""
        return Scope.ADMIN in self.scopes or scope in self.scopes

    def expired(self, now: datetime) -> bool:
        """Whether the token has expired."""
        return self.expires_at is not None and now >= self.expires_at


class _File(Frozen):
    tokens: tuple[Token, ...]


class TokenSet:
    """The tokens of one file."""

    def __init__(
        self, tokens: tuple[Token, ...], *, same: Callable[[bytes, bytes], bool] = hmac.compare_digest
    ) -> None:
        """
        Args:
            tokens: The valid tokens.
            same: Compares two digests in constant time.
        """
        self._same = same
        self._by_digest = tuple((token.digest, token) for token in tokens)
        self._by_name = {token.name: token for token in tokens}

    def weight_of(self, name: str) -> float:
        """Return the weight of the holder with this name; 1 if there is none."""
        token = self._by_name.get(name)
        return token.weight if token is not None else 1.0

    def allows(self, name: str, scope: Scope) -> bool:
        """Whether the holder with this name has a scope."""
        token = self._by_name.get(name)
        return token is not None and token.allows(scope)

    def find(self, secret: str) -> Token | None:
        """
        Return the token with this secret, or None.

        Compares all digests in constant time, so that the duration reveals nothing about any token.
        """
        presented = sha256(secret.encode("utf-8", "surrogateescape")).digest()
        found = None
        for digest, token in self._by_digest:
            if self._same(digest, presented):
                found = token
        return found


Tokens: TypeAlias = Reloaded[TokenSet]


def tokens_in(file: Path) -> Tokens:
    """
    Watch a token file: `tokens: [{name, token or sha256, scopes, weight, expires_at}]`.

    Raises:
        ConfigError: The file is unreadable or malformed; the message names the entry and its field, never a secret.
    """
    return Reloaded("tokens", (file,), lambda: read(file))


def read(file: Path) -> TokenSet:
    """
    Read a token file once.

    Raises:
        ConfigError: As for `tokens_in`.
    """
    try:
        content = yaml_of(read_bytes(file, "tokens"))
    except ValueError:  # its message would quote the file
        raise ConfigError(f"tokens: {file} is not valid YAML", field="tokens") from None
    try:
        tokens = _File.model_validate(content).tokens
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        key = ".".join(map(str, first["loc"])) or "tokens"
        scopes = ", ".join(Scope)
        accepted = f"accepted: tokens: [{{name, token or sha256, scopes: [{scopes}], expires_at}}]"
        raise ConfigError(f"tokens: {file}: {key}: {first['msg']}; {accepted}", field=key) from None
    _require_distinct(file, tokens)
    return TokenSet(tokens)


def _require_distinct(file: Path, tokens: tuple[Token, ...]) -> None:
    seen: dict[str | bytes, int] = {}
    for index, token in enumerate(tokens):
        for what, value in (("name", token.name), ("secret", token.digest)):
            if (first := seen.setdefault(value, index)) != index:
                raise ConfigError(
                    f"tokens: {file}: tokens.{index} has the same {what} as tokens.{first}; both must be unique",
                    field=f"tokens.{index}",
                )
