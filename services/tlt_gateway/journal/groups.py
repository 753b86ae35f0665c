"""Anonymous group names: equal for equal prompts, and meaningless without the key."""

import os
import secrets
from collections.abc import Hashable
from hashlib import blake2b
from pathlib import Path

from tlt_common.errors import ConfigError

KEY_FILE = "group.key"
KEY_BYTES = 32
NAME_BYTES = 8
"""Among 65,536 prompts, two have one name with a probability of one in eight billion."""


def group_key(directory: Path) -> bytes:
    """
    Return the key of a directory, creating it on first use, so that gateways that share it name groups alike.

    Raises:
        ConfigError: Its file cannot be read or written, or holds something else.
    """
    path = directory / KEY_FILE
    try:
        if not (key := _read(path)):
            _write(path, secrets.token_bytes(KEY_BYTES))
            key = _read(path)
    except OSError as error:
        raise ConfigError(f"journal: {path} cannot be used: {error.strerror}; delete it", field="journal") from error
    if len(key) != KEY_BYTES:
        raise ConfigError(f"journal: {path} has {len(key)} bytes; accepted: {KEY_BYTES}; delete it", field="journal")
    return key


def _read(path: Path) -> bytes:
    """Return the key; empty if there is none, or if a full disk left an empty file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return b""
    with os.fdopen(descriptor, "rb") as file:
        return file.read(KEY_BYTES + 1)


def _write(path: Path, key: bytes) -> None:
    """Create the file atomically, unless another gateway creates it first."""
    own = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(key)
        if path.exists():  # and is empty
            own.replace(path)
            return
        try:
            os.link(own, path)
        except FileExistsError:
            return
        except OSError:  # a file system without links
            own.replace(path)
    finally:
        own.unlink(missing_ok=True)


def group_name(key: bytes, owner: str, prompt: Hashable, tokens: int) -> str:
    """
    Return the name of a prompt's group.

    Args:
        key: As `group_key` returned it.
        owner: Name of the caller's token.
        prompt: Hash of the prompt's tokens. It is the same in every process, since only integers are hashed.
        tokens: Number of tokens.
    """
    found = blake2b(f"{prompt} {tokens} {owner}".encode("utf-8", "surrogatepass"), key=key, digest_size=NAME_BYTES)
    return found.hexdigest()
