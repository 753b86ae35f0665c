{{/* Checks that the schema cannot express. Every message names the value to change. */}}

{{- define "tlt.validate" -}}
{{- include "tlt.validate.cluster" . }}
{{- include "tlt.validate.images" . }}
{{- include "tlt.validate.storage" . }}
{{- include "tlt.validate.secrets" . }}
{{- include "tlt.validate.coordinator" . }}
{{- include "tlt.validate.gateway" . }}
{{- include "tlt.validate.traces" . }}
{{- end }}

{{- define "tlt.validate.traces" -}}
{{- if and .Values.traces .Values.networkPolicy.enabled (not .Values.networkPolicy.traces) }}
{{- fail "\n\ntraces is set: set networkPolicy.traces to the collector, such as [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: observability}}}], or networkPolicy.enabled to false\n" }}
{{- end }}
{{- end }}

{{- define "tlt.validate.cluster" -}}
{{- if not (.Capabilities.APIVersions.Has "ray.io/v1/RayService") }}
{{- if not (.Capabilities.APIVersions.Has "ray.io/v1") }}
{{- fail "\n\nThis cluster has no RayService (ray.io/v1), which workers need and KubeRay provides. Install it first:\n  helm repo add kuberay https://ray-project.github.io/kuberay-helm\n  helm install kuberay-operator kuberay/kuberay-operator --namespace kuberay --create-namespace\nWith `helm template`, which does not query the cluster, add: --api-versions ray.io/v1\n" }}
{{- end }}
{{- end }}
{{- include "tlt.validate.kuberay" . }}
{{- range $value, $api := dict "podMonitors" "PodMonitor" "rules" "PrometheusRule" }}
{{- $enabled := get (get $.Values.monitoring $value) "enabled" | toString }}
{{- $name := printf "monitoring.coreos.com/v1/%s" $api }}
{{- if and (eq $enabled "true") (not ($.Capabilities.APIVersions.Has $name)) }}
{{- fail (printf "\n\nmonitoring.%s.enabled is true but this cluster has no %s: install the Prometheus operator, or set monitoring.%s.enabled to auto or false (`helm template`: --api-versions %s)\n" $value $api $value $name) }}
{{- end }}
{{- end }}
{{- end }}

{{/*
KubeRay's version is nowhere in its API: 1.6 is the first with RayCronJobs, and with authOptions, which we set. Where the
kinds are known one by one (`helm template` without a cluster knows versions only), a missing RayCronJob leads to the CRD,
which not everybody may read.
*/}}
{{- define "tlt.validate.kuberay" -}}
{{- $apis := .Capabilities.APIVersions }}
{{- if and ($apis.Has "v1/Pod") ($apis.Has "ray.io/v1/RayService") (not ($apis.Has "ray.io/v1/RayCronJob")) }}
{{- $crd := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "rayservices.ray.io" | default dict | toJson }}
{{- if not (contains "\"authOptions\":" $crd) }}
{{- fail "\n\nThis cluster's RayService is older than KubeRay 1.6, the first with authOptions. Upgrade KubeRay's CRDs, which `helm upgrade` of its chart leaves as they are, and then its operator:\n  kubectl apply --server-side -k 'github.com/ray-project/kuberay/ray-operator/config/crd?ref=v1.6.2'\n" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "tlt.validate.images" -}}
{{- range $name := list "slim" "engine" }}
{{- if eq (get $.Values.image $name).tag "latest" }}
{{- fail (printf "\n\nimage.%s.tag is latest, which is not a fixed version: set a version, or image.%s.digest\n" $name $name) }}
{{- end }}
{{- if and $.Values.image.requireDigests (not (get $.Values.image $name).digest) }}
{{- fail (printf "\n\nimage.%s.digest is empty, and image.requireDigests is true: set the digest that your registry reports\n" $name) }}
{{- end }}
{{- end }}
{{- if and .Values.image.requireDigests (eq .Values.redis.mode "standalone") (not .Values.redis.image.digest) }}
{{- fail "\n\nredis.image.digest is empty, and image.requireDigests is true: set it\n" }}
{{- end }}
{{- end }}

{{- define "tlt.validate.storage" -}}
{{- $model := .Values.model }}
{{- if and (eq $model.source "pvc") (not $model.pvc.claim) }}
{{- fail "\n\nThe model's location is missing. Set one of:\n  model.pvc.claim: NAME            a PersistentVolumeClaim in this namespace (model.pvc.path: directory in it)\n  model.source: url                and model.url.url: s3://bucket/model, hf://org/model, ...\n  model.source: hostPath           and model.hostPath.path: /data/model on every node\n" }}
{{- end }}
{{- if and (eq $model.source "url") (not $model.url.url) }}
{{- fail "\n\nmodel.source is url: set model.url.url, such as s3://bucket/model\n" }}
{{- end }}
{{- range $name, $values := dict "model" $model "drafters" .Values.drafters }}
{{- if and (eq $values.source "hostPath") (not (hasPrefix "/" $values.hostPath.path)) }}
{{- fail (printf "\n\n%s.source is hostPath: set %s.hostPath.path to an absolute path\n" $name $name) }}
{{- end }}
{{- end }}
{{- if and (eq .Values.drafters.source "url") (not .Values.drafters.url.url) }}
{{- fail "\n\ndrafters.source is url: set drafters.url.url, such as s3://bucket/drafters\n" }}
{{- end }}
{{- end }}

{{- define "tlt.validate.coordinator" -}}
{{- with .Values.coordinator.ingress }}
{{- if and .enabled (not (and .hosts .tlsSecret)) }}
{{- fail "\n\ncoordinator.ingress.enabled is true: set coordinator.ingress.hosts and coordinator.ingress.tlsSecret; browsers send a token\n" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "tlt.validate.gateway" -}}
{{- $gateway := .Values.gateway }}
{{- if and $gateway.ingress.enabled (not (and $gateway.ingress.hosts $gateway.ingress.tlsSecret)) }}
{{- fail "\n\ngateway.ingress.enabled is true: set gateway.ingress.hosts and gateway.ingress.tlsSecret; gRPC through an Ingress needs TLS\n" }}
{{- end }}
{{- if and $gateway.grpcRoute.enabled (not $gateway.grpcRoute.parentRefs) }}
{{- fail "\n\ngateway.grpcRoute.enabled is true: set gateway.grpcRoute.parentRefs, such as [{name: GATEWAY, namespace: NAMESPACE}]\n" }}
{{- end }}
{{- if and $gateway.grpcRoute.enabled (not (.Capabilities.APIVersions.Has "gateway.networking.k8s.io/v1/GRPCRoute")) }}
{{- fail "\n\ngateway.grpcRoute.enabled is true but this cluster has no GRPCRoute: install Gateway API, or set gateway.grpcRoute.enabled to false (`helm template`: --api-versions gateway.networking.k8s.io/v1/GRPCRoute)\n" }}
{{- end }}
{{- if and (include "tlt.gateway.authority" .) (not (include "tlt.gateway.policy" .)) }}
{{- fail "\n\ngateway.grpcRoute.enabled is true but this cluster has no BackendTLSPolicy, which a Gateway needs to trust the chart's certificates: install Gateway API 1.4 or later (before that, its experimental channel) (`helm template`: --api-versions gateway.networking.k8s.io/v1/BackendTLSPolicy)\n" }}
{{- end }}
{{- if and (include "tlt.gateway.tokenizer" .) (eq .Values.model.source "url") }}
{{- fail "\n\ngateway.http.tokenizer is model, but each worker downloads its own copy of model.url: set gateway.http.tokenizer to none, or model.source to pvc or hostPath\n" }}
{{- end }}
{{- if and $gateway.autoscaling.enabled (gt ($gateway.autoscaling.minReplicas | int) ($gateway.autoscaling.maxReplicas | int)) }}
{{- fail "\n\ngateway.autoscaling.minReplicas is greater than gateway.autoscaling.maxReplicas\n" }}
{{- end }}
{{- end }}
