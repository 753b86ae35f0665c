"""
Enforces a cluster's NetworkPolicies as they stand, with nftables in its network namespace.

No policy engine can be had from a package registry; this one turns policies into rules once per call. Traffic between
pods, and from this host to pods, is filtered. What a pod sends to the node itself (DNS, the API server) and the
kubelet's probes are not, as on most real networks.
"""

import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from tests.cluster.kube.real_cluster import RealCluster

Object = Mapping[str, Any]
HEAD = """  chain forward {
    type filter hook forward priority 10; policy accept;
    ct state established,related accept"""
DIRECTIONS = (("Ingress", "from", "daddr", "saddr"), ("Egress", "to", "saddr", "daddr"))


def enforce(cluster: RealCluster) -> str:
    """Filter by the policies and pods of this moment; call it again when they change. Gives the rules it made."""
    api = cluster.rest()
    pods = [pod for pod in api.items("/api/v1/pods") if _has_address(pod)]
    spaces = {
        space["metadata"]["name"]: space["metadata"].get("labels", {}) for space in api.items("/api/v1/namespaces")
    }
    rules = ruleset(api.items("/apis/networking.k8s.io/v1/networkpolicies"), pods, spaces)
    subprocess.run([*cluster.network.prefix, "nft", "-f", "-"], input=rules, text=True, check=True)
    return rules


def ruleset(policies: Sequence[Object], pods: Sequence[Object], spaces: Mapping[str, Object]) -> str:
    """One chain for each pod and direction that a policy selects, ending in drop."""
    chains, jumps = [], []
    for index, pod in enumerate(pods):
        for kind, side, own, other in DIRECTIONS:
            mine = [policy for policy in policies if _concerns(policy, kind, pod)]
            if not mine:
                continue
            name = f"{kind.lower()}-{index}"
            allowed = [
                f"    {peer} {port} return"
                for policy in mine
                for rule in policy["spec"].get(kind.lower()) or []
                for peer in _peers(rule.get(side) or [], policy["metadata"]["namespace"], pods, spaces, other)
                for port in _ports(rule, pod if kind == "Ingress" else None, pods)
            ]
            chains.append("\n".join([f"  chain {name} {{", *allowed, "    drop", "  }"]))
            jumps.append(f"    ip {own} {pod['status']['podIP']} jump {name}")
    body = "\n".join([*chains, HEAD, *jumps, "  }"])
    return f"table ip netpol\ndelete table ip netpol\ntable ip netpol {{\n{body}\n}}\n"


def selects(selector: Object | None, labels: Object) -> bool:
    """Whether a label selector matches; None selects nothing, an empty one everything."""
    if selector is None:
        return False
    exact = all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())
    return exact and all(_matches(expression, labels) for expression in selector.get("matchExpressions", []))


def _matches(expression: Object, labels: Object) -> bool:
    key, values = expression["key"], expression.get("values", [])
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    raise ValueError(f"unknown operator in a label selector: {expression}")


def _has_address(pod: Object) -> bool:
    running = pod["status"].get("phase") in {"Pending", "Running"}
    return running and bool(pod["status"].get("podIP")) and not pod["spec"].get("hostNetwork")


def _concerns(policy: Object, kind: str, pod: Object) -> bool:
    spec = policy["spec"]
    same = policy["metadata"]["namespace"] == pod["metadata"]["namespace"]
    return (
        same and kind in spec["policyTypes"] and selects(spec.get("podSelector", {}), pod["metadata"].get("labels", {}))
    )


def _peers(
    peers: Sequence[Object], own: str, pods: Sequence[Object], spaces: Mapping[str, Object], field: str
) -> list[str]:
    """The nft matches for a rule's peers; a rule that names none allows all."""
    if not peers:
        return [""]
    return [match for peer in peers if (match := _addresses(peer, own, pods, spaces, field)) is not None]


def _addresses(peer: Object, own: str, pods: Sequence[Object], spaces: Mapping[str, Object], field: str) -> str | None:
    """The nft match for one peer, or None when it is nobody now."""
    if block := peer.get("ipBlock"):
        if ":" in block["cidr"]:  # the cluster has no IPv6
            return None
        without = f" ip {field} != {{ {', '.join(block['except'])} }}" if block.get("except") else ""
        return f"ip {field} {block['cidr']}{without}"

    def named(pod: Object) -> bool:
        meta = pod["metadata"]
        here = meta["namespace"] == own
        if "namespaceSelector" in peer:
            here = selects(peer["namespaceSelector"], spaces[meta["namespace"]])
        return here and selects(peer.get("podSelector", {}), meta.get("labels", {}))

    found = sorted(pod["status"]["podIP"] for pod in pods if named(pod))
    return f"ip {field} {{ {', '.join(found)} }}" if found else None


def _ports(rule: Object, target: Object | None, pods: Sequence[Object]) -> list[str]:
    """The nft matches for a rule's ports. A name is looked up in the target; outbound, in every pod that has it."""
    if not rule.get("ports"):
        return [""]
    matches = []
    for port in rule["ports"]:
        protocol, number = port.get("protocol", "TCP").lower(), port.get("port")
        if isinstance(number, str):
            numbers = {found for pod in ([target] if target else pods) for found in _named(pod, number)}
        else:
            numbers = {number}
        end = f"-{port['endPort']}" if "endPort" in port else ""
        matches += [
            f"{protocol} dport {one}{end}" if one else f"meta l4proto {protocol}" for one in sorted(numbers, key=str)
        ]
    return matches


def _named(pod: Object, name: str) -> set[int]:
    ports = [port for container in pod["spec"]["containers"] for port in container.get("ports", [])]
    return {port["containerPort"] for port in ports if port.get("name") == name}
