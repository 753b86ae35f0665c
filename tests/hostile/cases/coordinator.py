"""The coordinator's page."""

from tests.hostile.case import At, Case, bearer

API = "/api/v1"
NAMES = ("fleet", "workers", "workers/w", "timeline", "steps", "lengths", "drafters", "events", "trace")


def case(name: str, path: str, status: int, scope: str = "", method: str = "GET", param: str = "") -> Case:
    headers = bearer(scope) if scope else {}
    return Case(name=name, at=At.COORDINATOR, path=path, method=method, headers=headers, status=status, param=param)


OWN = (
    "localhost",
    "127.0.0.1",
    "[::1]",
    "10.0.0.7:7702",
    "node7",
    "rl-tlt-coordinator.rl.svc",
    "a.svc.cluster.local",
    "page.example",
    "PAGE.example:443",
    "localhost.",
)
OTHERS = (
    "evil.example",
    "evil.example:7702",
    "127.0.0.1.evil.example",
    "localhost.evil.com",
    "svc.com",
    "page.example.com",
)


def called(host: str, path: str, status: int) -> Case:
    param = "Host" if status >= 400 else ""
    return Case(
        name=f"{path} of {host}",
        at=At.PAGE,
        path=path,
        method="GET",
        headers={"Host": host},
        status=status,
        param=param,
    )


CASES = [
    *(called(host, f"{API}/fleet", 200) for host in OWN),
    *(
        called(host, path, 403)
        for host in OTHERS
        for path in (f"{API}/fleet", f"{API}/events", "/status", f"{API}/trace")
    ),
    case("the state by nobody", "/status", 401, param="authorization"),
    case("the state with the scope generate", "/status", 403, "generate", param="authorization"),
    case("the state with the scope update_weights", "/status", 403, "update_weights", param="authorization"),
    case("the state with the scope observe", "/status", 200, "observe"),
    case("the state with the scope admin", "/status", 200, "admin"),
    case("no changes", "/status?max_changes=0", 200, "admin"),
    case("all changes", "/status?max_changes=4096", 200, "admin"),
    case("too many changes", "/status?max_changes=999999999", 200, "admin"),  # of which there are 4,096 at most
    case("changes of many digits", f"/status?max_changes={'9' * 5000}", 400, "admin", param="max_changes"),
    case("negative changes", "/status?max_changes=-1", 400, "admin", param="max_changes"),
    case("changes that are no number", "/status?max_changes=all", 400, "admin", param="max_changes"),
    case("changes twice", "/status?max_changes=1&max_changes=2", 400, "admin", param="max_changes"),
    case("an unknown parameter", "/status?a=1", 400, "admin", param="query"),
    case("the state, posted", "/status", 405, "admin", "POST"),
    case("health", "/healthz", 200),
    case("health, deleted", "/healthz", 405, method="DELETE"),
    *(
        case(f"page {path[:40]}", path, 404)
        for path in ("/openapi.json", "/docs", "/redoc", "/metrics", "/status/", "//", "/%ff", "/a" * 1000)
    ),
    case("the API's description", f"{API}/openapi.json", 200),
    case("a file that the page does not have", "/page/..%2Fbundle.py", 404),
    *(case(f"{name} by nobody", f"{API}/{name}", 401, param="authorization") for name in NAMES),
    *(case(f"{name} by a trainer", f"{API}/{name}", 403, "generate", param="authorization") for name in NAMES),
    *(case(f"{name} of another kind", f"{API}/{name}?kind=1", 400, "observe", param="query") for name in NAMES),
    *(case(f"{name}, posted", f"{API}/{name}", 405, "observe", "POST") for name in NAMES),
    case("the figures", f"{API}/fleet", 200, "observe"),
    case("a worker that nobody saw", f"{API}/workers/nobody", 404, "observe", param="worker"),
    case("a worker of a strange name", f"{API}/workers/..%2F%00%ff", 404, "observe", param="worker"),
    case("a worker of a long name", f"{API}/workers/{'a' * 10_000}", 404, "observe", param="worker"),
    case("too many workers", f"{API}/workers?count=513", 400, "observe", param="count"),
    case("workers of digits", f"{API}/workers?count={'9' * 5000}", 400, "observe", param="count"),
    case("workers after half a surrogate", f"{API}/workers?after=%ed%a0%80", 200, "observe"),
    case("columns of no use", f"{API}/timeline?columns=1e9", 400, "observe", param="columns"),
    case("too many columns", f"{API}/timeline?columns=4097", 400, "observe", param="columns"),
    case("the future", f"{API}/timeline?to=9e15", 400, "observe", param="to"),
    case("a time that is none", f"{API}/timeline?from=nan", 400, "observe", param="from"),
    case("all of time", f"{API}/timeline?from=0", 400, "observe", param="from"),
    Case(
        name="a header of 10 MB for the page",
        at=At.COORDINATOR,
        raw=b"GET /status HTTP/1.1\r\na: " + b"b" * 10**7,
        status=(431, 0),
    ),
]
