import pytest

from tlt_common.config.entry import service_entry
from tlt_common.errors import ConfigError


@pytest.mark.parametrize("name", ["gateway", "worker", "cache", "trainer", "tuner", "coordinator"])
def test_a_service_has_an_entry_of_its_name(name: str) -> None:
    entry = service_entry(name)
    assert (entry.model.component, entry.extra) == (name, name)
    assert callable(entry.load_run())


def test_an_unknown_service_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"unknown service 'nope'; accepted: cache, coordinator"):
        service_entry("nope")
