{{/* Secret key that contains the Redis URL. */}}
{{- define "tlt.redis.url" -}}
valueFrom:
  {{- if eq .Values.redis.mode "external" }}
  {{- with .Values.redis.existingSecret }}
  secretKeyRef: {name: {{ .name }}, key: {{ .key }}}
  {{- end }}
  {{- else }}
  secretKeyRef: {name: {{ include "tlt.name" (list . "redis") }}, key: url}
  {{- end }}
{{- end }}
