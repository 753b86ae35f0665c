{{/* Ray Serve's configuration. Changes are applied to running pods. */}}
{{- define "tlt.worker.serve" -}}
# Gateways call the workers' own gRPC ports.
proxy_location: Disabled
applications:
  - name: workers
    import_path: tlt_worker.placement.serve:pods
    route_prefix: null
    args:
      replicas: {{ .Values.worker.replicas }}
      gpus_per_replica: {{ .Values.worker.gpus }}
      worker:
        {{- include "tlt.worker.config" . | nindent 8 }}
      {{- with include "tlt.flat" (list .Values.worker.trainer "") }}
      trainer:
        {{- . | nindent 8 }}
      {{- else }}
      trainer: {}
      {{- end }}
{{- end }}

{{- define "tlt.worker.config" -}}
{{- include "tlt.service.config" (list .Values.worker.config (include "tlt.worker.filled" .) (include "tlt.service.everywhere" .)) -}}
{{- end }}

{{/* Settings filled in by the chart. pod and advertise come from the environment. */}}
{{- define "tlt.worker.filled" -}}
listen: "[::]:7705"
metrics_port: 9090
model: {{ include "tlt.worker.model" . }}
coordinator: {{ include "tlt.address" (list . "coordinator") }}
cache: {{ include "tlt.address" (list . "cache") }}
tuner: {{ include "tlt.address" (list . "tuner") }}
fleet: {{ include "tlt.fleet" . }}
drafter_dir: {{ include "tlt.worker.drafters" . }}/published
checkpoint_dir: {{ include "tlt.worker.drafters" . }}/checkpoints
engine: {tensor_parallel: {{ max 1 .Values.worker.gpus }}}
drain_s: {{ .Values.worker.drainSeconds }}
spool_bytes: {{ include "tlt.bytes" .Values.worker.scratch }}
{{- end }}

{{/* Flatten nested settings into dotted keys: (list SETTINGS PREFIX). */}}
{{- define "tlt.flat" -}}
{{- $prefix := last . -}}
{{- range $key, $value := first . }}
{{- if kindIs "map" $value }}
{{- include "tlt.flat" (list $value (printf "%s%s." $prefix $key)) }}
{{- else }}
{{ printf "%s%s" $prefix $key }}: {{ toJson $value }}
{{- end }}
{{- end }}
{{- end }}
