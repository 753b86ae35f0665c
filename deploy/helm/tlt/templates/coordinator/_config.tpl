{{- define "tlt.coordinator.config" -}}
{{- $filled := include "tlt.coordinator.filled" . -}}
{{- include "tlt.service.config" (list .Values.coordinator.config $filled (include "tlt.service.everywhere" .)) -}}
{{- end }}

{{/* Settings filled in by the chart. Namespace and pod come from the environment. */}}
{{- define "tlt.coordinator.filled" -}}
listen: "[::]:7701"
http_listen: "[::]:7702"
metrics_port: 9090
kubernetes:
  config_map: {{ include "tlt.name" (list . "coordinator-state") }}
{{- if .Values.auth.enabled }}
tokens: /etc/tlt/tokens/tokens.yaml
{{- else if .Values.coordinator.ingress.enabled }}
http_hosts: {{ toJson .Values.coordinator.ingress.hosts }}
{{- end }}
{{- end }}

{{- define "tlt.coordinator.env" -}}
{{ include "tlt.env.field" (list "TLT_COORDINATOR_KUBERNETES__NAMESPACE" "metadata.namespace") }}
{{ include "tlt.env.field" (list "TLT_COORDINATOR_KUBERNETES__POD" "metadata.name") }}
{{- end }}
