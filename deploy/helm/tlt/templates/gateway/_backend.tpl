{{/* How a Gateway API Gateway verifies the gateway's certificate. */}}

{{/* ConfigMap that contains the CA; empty: no BackendTLSPolicy. */}}
{{- define "tlt.gateway.authority" -}}
{{- $route := .Values.gateway.grpcRoute -}}
{{- $generated := eq (include "tlt.tls.mode" .) "generated" -}}
{{- if and $route.enabled (include "tlt.tls" .) -}}
{{ $route.caConfigMap | default (ternary (include "tlt.name" (list . "ca")) "" $generated) }}
{{- end -}}
{{- end }}

{{/* Newest API version of BackendTLSPolicy that the cluster supports and that has our fields; empty: none. */}}
{{- define "tlt.gateway.policy" -}}
{{- $versions := .Capabilities.APIVersions -}}
{{- $group := "gateway.networking.k8s.io" -}}
{{- if $versions.Has (printf "%s/v1/BackendTLSPolicy" $group) -}}
{{ $group }}/v1
{{- else if $versions.Has (printf "%s/v1alpha3/BackendTLSPolicy" $group) -}}
{{ $group }}/v1alpha3
{{- end -}}
{{- end }}
