"""The version that a call gives to new weights."""

from tlt_common.domain.bounds import COUNTED_MAX
from tlt_common.domain.ids import PolicyVersion
from tlt_common.errors import InvalidRequestError
from tlt_gateway.http.shown import shown

MAX_DIGITS = 100


def version_of(value: str | int | None, *, served: PolicyVersion, field: str = "weight_version") -> PolicyVersion:
    """
    Return the version; without one, the one after `served`.

    Raises:
        InvalidRequestError: It is not a number.
    """
    version = served + 1 if value is None else value
    digits = str(version) if isinstance(version, str) or -1 < version <= COUNTED_MAX else ""
    if not (digits.isascii() and digits.isdecimal() and len(digits) < MAX_DIGITS) or int(digits) > COUNTED_MAX:
        raise InvalidRequestError(
            f"{field} is {shown(version)}; accepted: a number above {served}, the version served", field=field
        )
    return PolicyVersion(int(version))
