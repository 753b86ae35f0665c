{{- define "tlt.tuner.config" -}}
{{- include "tlt.service.config" (list .Values.tuner.config "{listen: 0.0.0.0:7704, metrics_port: 9090}" (include "tlt.service.everywhere" .)) -}}
{{- end }}
