import hmac
import inspect
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from tests.fakes.tokens import SECRETS, TOKENS, write
from tlt_common.errors import ConfigError, PermissionDeniedError, UnauthenticatedError
from tlt_common.rpc.security.access import REFLECTION, Caller
from tlt_common.rpc.security.bearer import Bearer
from tlt_common.rpc.security.tokens import Scope, Token, TokenSet, tokens_in

SECRET = "s" * 16
EXPIRY = datetime(2027, 1, 1, tzinfo=UTC)


def entry(**changes: object) -> dict[str, object]:
    return {"name": "a", "token": SECRET, "scopes": ["generate"]} | changes


def caller(secret: str, *, service: str = "RolloutService") -> Caller:
    return Caller(service=service, method="Generate", authorization=f"Bearer {secret}")


def bearer(path: Path, *, now: datetime = EXPIRY, scope: Scope = Scope.GENERATE) -> Bearer:
    return Bearer(tokens_in(path), lambda _method, _request: (scope,), now=lambda: now)


def admit(access: Bearer, one: Caller) -> None:
    """Let a caller make a call, as a server does."""
    assert access.identify(one)
    access.permit(one, None)


def test_a_token_or_its_digest_name_the_same_holder(tmp_path: Path) -> None:
    digest = sha256(SECRET.encode()).hexdigest()
    for tokens in ([entry()], [entry(token=None, sha256=digest)], [entry(token=None, sha256=digest.upper())]):
        found = tokens_in(write(tmp_path / "t", tokens)).current().find(SECRET)
        assert found is not None
        assert found.name == "a"
    assert TokenSet(()).find(SECRET) is None


def test_all_tokens_are_compared_whichever_it_is_and_in_constant_time() -> None:
    compared: list[bytes] = []

    def same(kept: bytes, presented: bytes) -> bool:
        compared.append(kept)
        return hmac.compare_digest(kept, presented)

    tokens = [Token(name=str(i), token=SecretStr(f"{i}" * 16), scopes=(Scope.ADMIN,)) for i in range(3)]
    every = [token.digest for token in tokens]
    for secret in ("0" * 16, "2" * 16, "wrong"):
        compared.clear()
        TokenSet(tuple(tokens), same=same).find(secret)
        assert compared == every
    assert inspect.signature(TokenSet).parameters["same"].default is hmac.compare_digest


@given(
    scopes=st.lists(st.sampled_from(Scope), min_size=1, unique=True),
    needed=st.sampled_from(Scope),
    left=st.none() | st.timedeltas(min_value=timedelta(days=-1), max_value=timedelta(days=1)),
)
def test_a_token_passes_if_and_only_if_it_is_valid_and_has_the_scope_or_is_an_operators(
    tmp_path_factory: pytest.TempPathFactory, scopes: list[Scope], needed: Scope, left: timedelta | None
) -> None:
    expires_at = None if left is None else (EXPIRY + left).isoformat()
    tokens = [entry(scopes=[str(scope) for scope in scopes], expires_at=expires_at)]
    access = bearer(write(tmp_path_factory.getbasetemp() / "property", tokens), scope=needed)
    valid = left is None or left > timedelta(0)
    allowed = needed in scopes or Scope.ADMIN in scopes
    try:
        admit(access, caller(SECRET))
    except UnauthenticatedError:
        assert not valid
    except PermissionDeniedError:
        assert valid
        assert not allowed
    else:
        assert valid
        assert allowed


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer  ", "Basic dXNlcg==", SECRETS["trainer"]])
def test_what_is_no_bearer_token_is_a_missing_one(tmp_path: Path, header: str) -> None:
    nobody = Caller(service="RolloutService", method="Generate", authorization=header)
    with pytest.raises(UnauthenticatedError, match="accepted: authorization: Bearer TOKEN"):
        bearer(write(tmp_path / "t")).identify(nobody)


def test_reflection_is_for_every_valid_token_and_for_nobody_else(tmp_path: Path) -> None:
    access = bearer(write(tmp_path / "t"), scope=Scope.ADMIN)
    admit(access, caller(SECRETS["reader"], service=REFLECTION))
    for secret in (SECRETS["former"], "unknown"):
        with pytest.raises(UnauthenticatedError):
            admit(access, caller(secret, service=REFLECTION))


def test_a_changed_file_counts_at_once_and_a_malformed_one_does_not(tmp_path: Path) -> None:
    path = write(tmp_path / "t")
    access = bearer(path)
    admit(access, caller(SECRETS["reader"]))
    path.write_text("tokens: [")
    admit(access, caller(SECRETS["reader"]))
    write(path, TOKENS[:1])
    with pytest.raises(UnauthenticatedError):
        admit(access, caller(SECRETS["reader"]))
    admit(access, caller(SECRETS["trainer"]))


@pytest.mark.parametrize(
    ("tokens", "field"),
    [
        ([entry(name="")], "tokens.0.name"),
        ([entry(token=SECRET[:15])], "tokens.0.token"),
        ([entry(sha256="0" * 64)], "tokens.0"),
        ([entry(token=None)], "tokens.0"),
        ([entry(token=None, sha256="xyz")], "tokens.0.sha256"),
        ([entry(scopes=[])], "tokens.0.scopes"),
        ([entry(scopes=["everything"])], "tokens.0.scopes.0"),
        ([entry(expires_at="2027-01-01T00:00:00")], "tokens.0.expires_at"),
        ([entry(expires_at="soon")], "tokens.0.expires_at"),
        ([entry(owner="me")], "tokens.0.owner"),
        ([entry(), entry(token="t" * 16)], "tokens.1"),
        ([entry(), entry(name="b")], "tokens.1"),
    ],
)
def test_what_is_wrong_is_named_and_no_secret_is_quoted(
    tmp_path: Path, tokens: list[dict[str, object]], field: str
) -> None:
    with pytest.raises(ConfigError, match=r"accepted|must be unique") as caught:
        tokens_in(write(tmp_path / "t", tokens))
    assert caught.value.field == field
    assert SECRET[:15] not in str(caught.value)


@pytest.mark.parametrize("text", ["", "- a", "tokens: 3", f"tokens: [ {SECRET}", f"{SECRET}: &a *b"])
def test_what_is_no_file_of_tokens_is_refused_without_quoting_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t"
    path.write_text(text)
    with pytest.raises(ConfigError, match="tokens") as caught:
        tokens_in(path)
    assert SECRET[:15] not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        tokens_in(tmp_path / "none")
