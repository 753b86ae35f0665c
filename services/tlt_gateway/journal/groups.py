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
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            key = path.read_bytes()
        else:
            key = secrets.token_bytes(KEY_BYTES)
            with os.fdopen(descriptor, "wb") as file:
                file.write(key)
    except OSError as error:
        raise ConfigError(f"journal: {path} cannot be used: {error.strerror}; delete it", field="journal") from error
    if len(key) != KEY_BYTES:
        raise ConfigError(f"journal: {path} has {len(key)} bytes; accepted: {KEY_BYTES}; delete it", field="journal")
    return key


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
