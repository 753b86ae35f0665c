"""The coordinator's page."""

from tests.hostile.case import At, Case, bearer


def case(name: str, path: str, status: int, scope: str = "", method: str = "GET", param: str = "") -> Case:
    headers = bearer(scope) if scope else {}
    return Case(name=name, at=At.COORDINATOR, path=path, method=method, headers=headers, status=status, param=param)


CASES = [
    case("the state by nobody", "/status", 401, param="authorization"),
    case("the state with the scope generate", "/status", 403, "generate", param="authorization"),
    case("the state with the scope update_weights", "/status", 403, "update_weights", param="authorization"),
    case("the state with the scope admin", "/status", 200, "admin"),
    case("no changes", "/status?max_changes=0", 200, "admin"),
    case("all changes", "/status?max_changes=4096", 200, "admin"),
    case("too many changes", "/status?max_changes=999999999", 200, "admin"),  # of which there are 4,096 at most
    case("changes of many digits", f"/status?max_changes={'9' * 5000}", 400, "admin", param="max_changes"),
    case("negative changes", "/status?max_changes=-1", 400, "admin", param="max_changes"),
    case("changes that are no number", "/status?max_changes=all", 400, "admin", param="max_changes"),
    case("changes twice", "/status?max_changes=1&max_changes=2", 400, "admin"),
    case("an unknown parameter", "/status?a=1", 400, "admin"),
    case("the state, posted", "/status", 405, "admin", "POST"),
    case("health", "/healthz", 200),
    case("health, deleted", "/healthz", 405, method="DELETE"),
    *(
        case(f"page {path[:40]}", path, 404)
        for path in ("/openapi.json", "/docs", "/redoc", "/", "/metrics", "/status/", "//", "/%ff", "/a" * 1000)
    ),
    Case(
        name="a header of 10 MB for the page",
        at=At.COORDINATOR,
        raw=b"GET /status HTTP/1.1\r\na: " + b"b" * 10**7,
        status=(431, 0),
    ),
]
