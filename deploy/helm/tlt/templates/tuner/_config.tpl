{{- define "tlt.tuner.config" -}}
{{- $filled := include "tlt.tuner.filled" . -}}
{{- include "tlt.service.config" (list .Values.tuner.config $filled (include "tlt.service.everywhere" .)) -}}
{{- end }}

{{/* What the chart knows. The URL of Redis holds a password, so that it comes by the environment, from a secret. */}}
{{- define "tlt.tuner.filled" -}}
listen: 0.0.0.0:7704
metrics_port: 9090
fleet: {{ include "tlt.fleet" . }}
{{- end }}

{{- define "tlt.tuner.env" -}}
- name: TLT_TUNER_REDIS
  {{- include "tlt.redis.url" . | nindent 2 }}
{{- end }}
