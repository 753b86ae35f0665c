"""What the cache accepts as its Redis."""

import pytest
from pydantic import SecretStr, ValidationError

from tlt_cache.config import CacheConfig
from tlt_cache.redis_client import is_cluster
from tlt_common.config.redis_url import connection_options


@pytest.mark.parametrize("url", ["redis+cluster://h:7000", "rediss+cluster://:secret@h:7000", "redis://h", "memory"])
def test_one_redis_or_a_cluster_is_accepted(url: str) -> None:
    config = CacheConfig(redis=SecretStr(url))
    assert is_cluster(config.redis.get_secret_value()) == ("+cluster" in url)
    assert bool(connection_options(url, None)) == url.startswith("rediss")


@pytest.mark.parametrize(
    "url", ["unix+cluster:///run/redis.sock", "redis+cluster://", "cluster://h", "redis+sentinel://h"]
)
def test_other_schemes_are_refused(url: str) -> None:
    with pytest.raises(ValidationError, match=r"redis\[s\]\[\+cluster\]"):
        CacheConfig(redis=SecretStr(url))
