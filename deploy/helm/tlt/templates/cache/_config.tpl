{{- define "tlt.cache.config" -}}
{{- $filled := include "tlt.cache.filled" . -}}
{{- include "tlt.service.config" (list .Values.cache.config $filled (include "tlt.service.everywhere" .)) -}}
{{- end }}

{{/* Settings filled in by the chart. The Redis URL contains a password, so it comes from a Secret. */}}
{{- define "tlt.cache.filled" -}}
listen: "[::]:7703"
metrics_port: 9090
fleet: {{ include "tlt.fleet" . }}
{{ include "tlt.redis.settings" . }}
{{- end }}

{{- define "tlt.cache.env" -}}
- name: TLT_CACHE_REDIS
  {{- include "tlt.redis.url" . | nindent 2 }}
{{- end }}
