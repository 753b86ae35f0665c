import pytest

from tlt_common.rpc.tokens import Scope
from tlt_common.wire import rollout as wire
from tlt_gateway.access import scope_of

SCOPES = {
    "Generate": Scope.GENERATE,
    "GenerateBatch": Scope.GENERATE,
    "Abort": Scope.GENERATE,
    "GetServerInfo": Scope.GENERATE,
    "UpdateWeights": Scope.UPDATE_WEIGHTS,
    "Pause": Scope.UPDATE_WEIGHTS,
    "Proceed": Scope.UPDATE_WEIGHTS,
}


def test_every_method_has_a_scope() -> None:
    methods = wire.pb.DESCRIPTOR.services_by_name["RolloutService"].methods_by_name
    assert {name: scope_of(name, None) for name in methods} == SCOPES


@pytest.mark.parametrize(("everybodys", "scope"), [(False, Scope.GENERATE), (True, Scope.UPDATE_WEIGHTS)])
def test_to_abort_the_requests_of_others_takes_more_than_to_make_some(everybodys: bool, scope: Scope) -> None:
    assert scope_of("Abort", wire.pb.AbortRequest(all=everybodys)) is scope


def test_a_method_nobody_thought_of_is_for_operators() -> None:
    assert scope_of("DropAll", None) is Scope.ADMIN
