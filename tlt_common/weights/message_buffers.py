"""Configures malloc for buffers of large messages."""

from functools import cache

LARGEST_BYTES = 32 * 2**20 - 2**16
"""Just below glibc's DEFAULT_MMAP_THRESHOLD_MAX: freeing a larger block teaches it nothing."""


@cache
def keep_message_buffers() -> None:
    """
    Make malloc keep freed message buffers for reuse, up to 64 MiB per thread pool.

    By default glibc returns each freed piece of 4 MiB to the kernel, which clears and maps all its pages again for the
    next one: half the CPU time of sending or receiving weights. Freeing one large block raises both of its dynamic
    thresholds for the rest of the process (mallopt(3), M_MMAP_THRESHOLD). Other allocators ignore it.
    """
    bytes(LARGEST_BYTES)
