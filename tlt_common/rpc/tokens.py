"""A file of tokens, read anew when it changes, and what each is good for."""

import hmac
from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

import yaml
from pydantic import AwareDatetime, Field, SecretStr, ValidationError, field_validator, model_validator

from tlt_common.config.base import Frozen
from tlt_common.errors import ConfigError
from tlt_common.rpc.reloaded import Reloaded, read_bytes

LEAST_CHARACTERS = 16
"""A shorter token can be found by trying."""


class Scope(StrEnum):
    """What a token is good for."""

    GENERATE = "generate"
    """Ask for responses, and end one's own."""
    UPDATE_WEIGHTS = "update_weights"
    """Change what everybody is served, and end what is of the old."""
    ADMIN = "admin"
    """Everything."""


class Token(Frozen):
    """One holder of a credential."""

    name: str = Field(min_length=1)
    """For logs; says who has it."""
    token: SecretStr | None = None
    """The secret itself."""
    sha256: str | None = Field(None, pattern="^[0-9a-fA-F]{64}$")
    """Or its SHA-256 in hex, so that the file tells nobody the secret."""
    scopes: tuple[Scope, ...] = Field(min_length=1)
    """What it is good for."""
    expires_at: AwareDatetime | None = None
    """From then on it is refused; null: it does not expire."""

    @field_validator("token")
    @classmethod
    def _hard_to_guess(cls, token: SecretStr | None) -> SecretStr | None:
        if token is not None and len(token.get_secret_value()) < LEAST_CHARACTERS:
            raise ValueError(f"is shorter than {LEAST_CHARACTERS} characters")
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
        """Whether it is good for that."""
        return Scope.ADMIN in self.scopes or scope in self.scopes

    def expired(self, now: datetime) -> bool:
        """Whether its time is over."""
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
            tokens: All that are known.
            same: Compares digests, in a time that does not depend on them.
        """
        self._same = same
        self._by_digest = tuple((token.digest, token) for token in tokens)

    def find(self, secret: str) -> Token | None:
        """
        Find whose secret it is.

        All are compared, by digest and in constant time: how long it takes tells nothing of any of them.
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
    Watch a file of tokens: `tokens: [{name, token or sha256, scopes, expires_at}]`.

    Raises:
        ConfigError: It cannot be read or is malformed; names the entry and its field, never a secret.
    """
    return Reloaded("tokens", (file,), lambda: read(file))


def read(file: Path) -> TokenSet:
    """
    Read a file once.

    Raises:
        ConfigError: As `tokens_in`.
    """
    try:
        content = yaml.safe_load(read_bytes(file, "tokens"))
        tokens = _File.model_validate(content).tokens
    except yaml.YAMLError:  # its message would quote the file
        raise ConfigError(f"tokens: {file} is not YAML", field="tokens") from None
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        key = ".".join(map(str, first["loc"])) or "tokens"
        accepted = "accepted: tokens: [{name, token or sha256, scopes: [generate, update_weights, admin], expires_at}]"
        raise ConfigError(f"tokens: {file}: {key}: {first['msg']}; {accepted}", field=key) from None
    _require_distinct(file, tokens)
    return TokenSet(tokens)


def _require_distinct(file: Path, tokens: tuple[Token, ...]) -> None:
    seen: dict[str | bytes, int] = {}
    for index, token in enumerate(tokens):
        for what, value in (("name", token.name), ("secret", token.digest)):
            if (first := seen.setdefault(value, index)) != index:
                raise ConfigError(
                    f"tokens: {file}: tokens.{index} has the {what} of tokens.{first}; accepted: one of its own",
                    field=f"tokens.{index}",
                )
