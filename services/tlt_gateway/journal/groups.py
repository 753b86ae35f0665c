"""Names of groups: the same for the same prompt, and without meaning to whoever does not have the key."""

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
    Return the key of a directory, made when it is first asked for: gateways that share it name groups alike.

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
    """Return the content; empty if there is none, or a full disk has left none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return b""
    with os.fdopen(descriptor, "rb") as file:
        return file.read(KEY_BYTES + 1)


def _write(path: Path, key: bytes) -> None:
    """Create the file as a whole, unless another gateway does so meanwhile."""
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
    Return the name of the group of a prompt.

    Args:
        key: As `group_key` returned it.
        owner: Name of the token of whoever asks.
        prompt: Hash of the prompt's tokens. It is the same in every process, as it is of integers alone.
        tokens: How many they are.
    """
    found = blake2b(f"{prompt} {tokens} {owner}".encode("utf-8", "surrogatepass"), key=key, digest_size=NAME_BYTES)
    return found.hexdigest()
