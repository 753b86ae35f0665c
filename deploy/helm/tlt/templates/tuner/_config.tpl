{{- define "tlt.tuner.config" -}}
{{- $filled := include "tlt.tuner.filled" . -}}
{{- include "tlt.service.config" (list .Values.tuner.config $filled (include "tlt.service.everywhere" .)) -}}
{{- end }}

{{/* Settings filled in by the chart. The Redis URL contains a password, so it comes from a Secret. */}}
{{- define "tlt.tuner.filled" -}}
listen: "[::]:7704"
metrics_port: 9090
fleet: {{ include "tlt.fleet" . }}
{{ include "tlt.redis.settings" . }}
{{- end }}

{{- define "tlt.tuner.env" -}}
- name: TLT_TUNER_REDIS
  {{- include "tlt.redis.url" . | nindent 2 }}
{{- end }}
