"""File systems that differ although the machine has only one."""

import errno
import os
from typing import Any, Never


def refuse_link(*_: Any, **__: Any) -> Never:
    """Replaces `os.link`: fails as between file systems."""
    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
