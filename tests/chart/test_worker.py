"""Workers on KubeRay: sizes, placement, and what creates a new RayService."""

import json
from typing import Any

import pytest

from tests.chart.rendering import VALUE_SETS, Object, render
from tlt_worker.placement import leave
from tlt_worker.placement.pods import SLOT, PodsSpec
from tlt_worker.placement.serve import LEAVE_S


def service(values: Any = None) -> Object:
    return render(values).one("RayService")


def name(values: Any = None) -> str:
    named: str = service(values)["metadata"]["name"]
    return named


def group(values: Any = None) -> Object:
    found: Object = service(values)["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]
    return found


def test_a_change_of_the_ray_cluster_makes_a_new_ray_service() -> None:
    names = [
        name(),
        name({"image": {"engine": {"tag": "0.2.0"}}}),
        name({"worker": {"gpus": 2}}),
        name({"worker": {"replicas": 7}}),  # KubeRay does not change a running cluster
        name({"worker": {"resources": {"requests": {"cpu": "9"}}}}),
        name({"worker": {"env": [{"name": "A", "value": "b"}]}}),
        name({"worker": {"head": {"resources": {"requests": {"cpu": "2"}}}}}),
        name({"model": {"pvc": {"claim": "another"}}}),
    ]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "values",
    [
        {"worker": {"config": {"engine": {"max_running": 99}}}},
        {"worker": {"trainer": {"nice": 4}}},
        {"gateway": {"replicas": 3}},
        {"cache": {"config": {"log_level": "debug"}}},
    ],
    ids=str,
)
def test_a_change_of_worker_settings_keeps_the_ray_service(values: Object) -> None:
    assert name(values) == name()


@pytest.mark.parametrize("values", VALUE_SETS)
def test_names_fit_kuberay(values: str) -> None:
    assert len(name(values)) <= 47
    assert service(values)["spec"]["upgradeStrategy"] == {"type": "None"}


@pytest.mark.parametrize(
    ("values", "replicas", "gpus"),
    [("tiny-cpu", 2, 0), ("one-node-8-gpus", 8, 1), ("sixteen-nodes", 128, 1), ("sixteen-nodes-tp8", 16, 8)],
)
def test_gpus_of_pods_are_those_of_the_engine(values: str, replicas: int, gpus: int) -> None:
    workers = group(values)
    assert [workers[key] for key in ("replicas", "minReplicas", "maxReplicas")] == [replicas] * 3
    resources = workers["template"]["spec"]["containers"][0]["resources"]
    expected = str(gpus) if gpus else None
    assert resources["limits"].get("nvidia.com/gpu") == expected
    assert resources["requests"].get("nvidia.com/gpu") == expected
    args = render(values).serve["applications"][0]["args"]
    assert (args["replicas"], args["gpus_per_replica"]) == (replicas, gpus)
    assert args["worker"]["engine"]["tensor_parallel"] == max(1, gpus)


@pytest.mark.parametrize("values", VALUE_SETS)
def test_placement_accepts_serves_arguments(values: str) -> None:
    rendered = render(values)
    spec = PodsSpec.model_validate(rendered.serve["applications"][0]["args"])
    environment = {"TLT_WORKER_POD": "pod-1", "TLT_WORKER_ADVERTISE": "10.0.0.7"}
    config = spec.config(3, environment)
    assert (config.worker_id, config.pod, config.advertise) == ("worker-3", "pod-1", "10.0.0.7")
    assert config.coordinator == "rl-tlt-coordinator.rollouts.svc:7701"
    assert config.cache == "rl-tlt-cache.rollouts.svc:7703"
    assert config.tuner == "rl-tlt-tuner.rollouts.svc:7704"


def test_a_trainer_can_be_configured_in_both_places() -> None:
    values = {"worker": {"config": {"trainer": {"enabled": False}}, "trainer": {"publish": {"every_tokens": 262144}}}}
    spec = PodsSpec.model_validate(render(values).serve["applications"][0]["args"])
    config = spec.config(0, {})
    assert not config.trainer.enabled
    assert config.trainer.settings == {"publish.every_tokens": 262144}


@pytest.mark.parametrize("component", ["head", "worker"])
def test_engines_are_not_nice(component: str) -> None:
    """With Ray's default of 15 the trainer, ten further, could be at most four further."""
    (container,) = render("one-node-8-gpus").pods[component].spec["containers"]
    assert {"name": "RAY_worker_niceness", "value": "0"} in container["env"]


def test_one_replica_fits_a_pod_and_none_the_head() -> None:
    cluster = service()["spec"]["rayClusterConfig"]
    parameters = group()["rayStartParams"]
    assert parameters["num-cpus"] == "1"
    assert json.loads(json.loads(parameters["resources"])) == {SLOT: 1}  # quoted twice, for the shell
    assert cluster["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    assert cluster["headGroupSpec"]["rayStartParams"]["dashboard-host"] == "0.0.0.0"
    assert cluster["enableInTreeAutoscaling"] is False


def test_ray_demands_a_token_unless_told_otherwise() -> None:
    assert service()["spec"]["rayClusterConfig"]["authOptions"] == {"mode": "token"}
    told = service({"worker": {"rayAuth": "disabled"}})["spec"]["rayClusterConfig"]
    assert told["authOptions"] == {"mode": "disabled"}


def test_a_cluster_of_ipv6_alone_gets_a_dashboard_there() -> None:
    told = service({"worker": {"head": {"dashboardHost": "::"}}})["spec"]["rayClusterConfig"]
    assert told["headGroupSpec"]["rayStartParams"]["dashboard-host"] == "::"


def test_serve_imports_our_application_and_runs_no_proxy() -> None:
    serve = render().serve
    assert serve["proxy_location"] == "Disabled"
    application = serve["applications"][0]
    assert (application["import_path"], application["route_prefix"]) == ("tlt_worker.placement.serve:pods", None)


def test_pods_get_probes_of_ours_so_that_kuberay_adds_none() -> None:
    for component in ("head", "worker"):
        container = render().pods[component].main
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert ports["agent"] == 52365
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert container[probe]["httpGet"] == {"path": "/api/local_raylet_healthz", "port": "agent"}


def test_workers_end_after_their_drain() -> None:
    spec = render({"worker": {"drainSeconds": 300}}).pods["worker"].spec
    assert spec["terminationGracePeriodSeconds"] > 300
    args = render({"worker": {"drainSeconds": 300}}).serve["applications"][0]["args"]
    assert args["worker"]["drain_s"] == 300
    hook = spec["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    assert hook == ["python", "-m", leave.__name__, str(300 + int(LEAVE_S) + 5)]  # as placement configures a replica
    assert spec["terminationGracePeriodSeconds"] > int(hook[-1])


def test_kueue_gets_its_label() -> None:
    assert service("sixteen-nodes")["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "rollouts"
    assert "kueue.x-k8s.io/queue-name" not in service()["metadata"]["labels"]


def test_placement_is_passed_on() -> None:
    large = render("sixteen-nodes").pods["worker"].spec
    assert large["nodeSelector"] == {
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "gpu-8",
    }
    assert large["priorityClassName"] == "training"
    assert large["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    spread = large["topologySpreadConstraints"][0]
    assert (
        spread["labelSelector"]["matchLabels"].items()
        <= render("sixteen-nodes").pods["worker"].metadata["labels"].items()
    )
    other = render("tls-external-redis").pods["worker"].spec
    assert other["runtimeClassName"] == "nvidia"
    assert "nodeAffinity" in other["affinity"]
    assert {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hugging-face", "key": "token"}}} in other[
        "containers"
    ][0]["env"]


def test_a_model_by_url_is_fetched_before_the_engine_starts() -> None:
    spec = render("sixteen-nodes").pods["worker"].spec
    fetch, _ = spec["initContainers"]
    model = render("sixteen-nodes").serve["applications"][0]["args"]["worker"]["model"]
    assert fetch["command"] == ["tlt", "fetch", "s3://models/qwen3-8b", model]
    assert fetch["envFrom"] == [{"secretRef": {"name": "s3-read"}}]
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert volumes["model"]["emptyDir"] == {"sizeLimit": "40Gi"}


def test_a_model_on_a_claim_is_read_in_place() -> None:
    rendered = render("one-node-8-gpus")
    assert rendered.serve["applications"][0]["args"]["worker"]["model"] == "/models/qwen3-8b"
    volumes = {volume["name"]: volume for volume in rendered.pods["worker"].spec["volumes"]}
    assert volumes["model"]["persistentVolumeClaim"] == {"claimName": "models", "readOnly": True}
    assert [container["name"] for container in rendered.pods["worker"].spec["initContainers"]] == ["check"]


def test_a_model_that_no_engine_runs_is_refused_before_ray_starts_and_the_pod_says_why() -> None:
    rendered = render("one-node-8-gpus")
    *_, check = rendered.pods["worker"].spec["initContainers"]
    model = rendered.serve["applications"][0]["args"]["worker"]["model"]
    assert check["command"][:5] == ["tlt", "engine", "check", "--set", f"model={model}"]
    assert check["terminationMessagePolicy"] == "FallbackToLogsOnError"
    assert {"name": "model", "mountPath": "/models", "readOnly": True} in check["volumeMounts"]


def test_drafters_are_on_a_claim_that_outlives_the_release() -> None:
    claim = render().one("PersistentVolumeClaim", "drafters")
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert "storageClassName" not in claim["spec"]
    assert render("tls-external-redis").one("PersistentVolumeClaim", "drafters")["spec"]["storageClassName"] == "shared"
    volumes = {volume["name"]: volume for volume in render().pods["worker"].spec["volumes"]}
    assert volumes["drafters"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]


def test_an_existing_claim_or_a_url_makes_no_claim() -> None:
    for values in ("tiny-cpu", "sixteen-nodes", "air-gapped"):
        assert not render(values).of("PersistentVolumeClaim")
    worker = render("sixteen-nodes").serve["applications"][0]["args"]["worker"]
    assert worker["drafter_dir"] == "s3://runs/drafters/published"
    assert worker["checkpoint_dir"] == "s3://runs/drafters/checkpoints"


@pytest.mark.parametrize(("values", "min_available"), [("one-node-8-gpus", 7), ("sixteen-nodes", 112), ("tiny-cpu", 1)])
def test_drained_nodes_leave_workers(values: str, min_available: int) -> None:
    assert render(values).one("PodDisruptionBudget", "worker")["spec"]["minAvailable"] == min_available


def test_a_single_worker_keeps_no_node_from_being_drained() -> None:
    assert "worker" not in render("plain").of("PodDisruptionBudget")


def test_the_head_has_the_port_without_which_kuberay_makes_no_service() -> None:
    ports = {port["name"]: port["containerPort"] for port in render().pods["head"].main["ports"]}
    assert ports["serve"] == 8000
