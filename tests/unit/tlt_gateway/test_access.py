from tlt_common.rpc.security.tokens import Scope
from tlt_common.wire import rollout as wire
from tlt_gateway.access import scopes_of

SCOPES = {
    "Generate": (Scope.GENERATE,),
    "GenerateBatch": (Scope.GENERATE,),
    "Announce": (Scope.GENERATE,),
    "Abort": (Scope.GENERATE, Scope.UPDATE_WEIGHTS),
    "GetServerInfo": (Scope.GENERATE,),
    "UpdateWeights": (Scope.UPDATE_WEIGHTS,),
    "Pause": (Scope.UPDATE_WEIGHTS,),
    "Proceed": (Scope.UPDATE_WEIGHTS,),
    "ReleaseMemory": (Scope.UPDATE_WEIGHTS,),
    "ResumeMemory": (Scope.UPDATE_WEIGHTS,),
}


def test_every_method_has_a_scope() -> None:
    methods = wire.pb.DESCRIPTOR.services_by_name["RolloutService"].methods_by_name
    assert {name: scopes_of(name, None) for name in methods} == SCOPES


def test_a_method_nobody_thought_of_is_for_operators() -> None:
    assert scopes_of("DropAll", None) == (Scope.ADMIN,)
