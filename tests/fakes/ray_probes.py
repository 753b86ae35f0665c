"""The probes that KubeRay 1.7's operator adds to Ray's containers in a RayService (Ray 2.53 and later)."""

from typing import Any

Object = dict[str, Any]

SERVE = 8000
CHECK = "wget --tries 1 -T {seconds} -q -O- http://localhost:{port}/{path} | grep success"


def add_probes(main: Object, kind: str, agent_port: int) -> None:
    """Add the probes missing in the template. A worker is ready if its Serve proxy is."""
    answer = {"httpGet": {"path": "/api/healthz", "port": agent_port}}
    common = {"timeoutSeconds": 5 if kind == "head" else 2, "periodSeconds": 5}
    main.setdefault("livenessProbe", {**answer, **common, "initialDelaySeconds": 30, "failureThreshold": 120})
    if kind == "head":
        main.setdefault("readinessProbe", {**answer, **common, "initialDelaySeconds": 10, "failureThreshold": 10})
        return
    ports = [port["containerPort"] for port in main.get("ports", []) if port.get("name") == "serve"]
    checks = [
        CHECK.format(seconds=2, port=agent_port, path="api/local_raylet_healthz"),
        CHECK.format(seconds=10, port=ports[0] if ports else SERVE, path="-/healthz"),
    ]
    command = {"exec": {"command": ["bash", "-c", " && ".join(checks)]}}
    main.setdefault("readinessProbe", {**command, **common, "initialDelaySeconds": 10, "failureThreshold": 1})
