{{- define "tlt.cache.config" -}}
{{- $filled := include "tlt.cache.filled" . -}}
{{- include "tlt.service.config" (list .Values.cache.config $filled (include "tlt.service.everywhere" .)) -}}
{{- end }}

{{/* What the chart knows. The URL of Redis holds a password, so that it comes by the environment, from a secret. */}}
{{- define "tlt.cache.filled" -}}
listen: 0.0.0.0:7703
metrics_port: 9090
fleet: {{ include "tlt.fleet" . }}
{{- end }}

{{- define "tlt.cache.env" -}}
- name: TLT_CACHE_REDIS
  {{- include "tlt.redis.url" . | nindent 2 }}
{{- end }}
