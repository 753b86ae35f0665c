{{- define "tlt.cache.config" -}}
{{- $filled := include "tlt.cache.filled" . -}}
{{- include "tlt.service.config" (list .Values.cache.config $filled (include "tlt.service.everywhere" .)) -}}
{{- end }}

{{/* What the chart knows. The URL of Redis holds a password, so that it comes by the environment, from a secret. */}}
{{- define "tlt.cache.filled" -}}
listen: 0.0.0.0:7703
metrics_port: 9090
fleet: {{ .Release.Namespace }}/{{ include "tlt.fullname" . }}
{{- end }}

{{- define "tlt.cache.env" -}}
- name: TLT_CACHE_REDIS
  valueFrom:
    {{- if eq .Values.redis.mode "external" }}
    {{- with .Values.redis.existingSecret }}
    secretKeyRef: {name: {{ .name }}, key: {{ .key }}}
    {{- end }}
    {{- else }}
    secretKeyRef: {name: {{ include "tlt.name" (list . "redis") }}, key: url}
    {{- end }}
{{- end }}
