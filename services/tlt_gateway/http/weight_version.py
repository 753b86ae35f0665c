"""The version that a call gives to new weights."""

from tlt_common.domain.bounds import COUNTED_MAX
from tlt_common.domain.ids import PolicyVersion
from tlt_common.errors import InvalidRequestError


def version_of(value: str | int | None, *, served: PolicyVersion, field: str = "weight_version") -> PolicyVersion:
    """
    Return the version; without one, the one after `served`.

    Raises:
        InvalidRequestError: It is not a number.
    """
    version = served + 1 if value is None else value
    if not str(version).isdecimal() or int(version) > COUNTED_MAX:
        raise InvalidRequestError(
            f"{field} is {version!r:.80}; accepted: a number above {served}, the version served", field=field
        )
    return PolicyVersion(int(version))
