{{- define "tlt.gateway.config" -}}
{{- $filled := include "tlt.gateway.filled" . -}}
{{- include "tlt.service.config" (list .Values.gateway.config $filled (include "tlt.service.everywhere" .)) -}}
{{- end }}

{{/* Settings filled in by the chart. gateway_id is the pod's name, set by environment variable. */}}
{{- define "tlt.gateway.filled" -}}
listen: "[::]:7700"
metrics_port: 9090
coordinator: {{ include "tlt.address" (list . "coordinator") }}
worker_service: {{ include "tlt.address" (list . "worker") }}
known_workers: /spool/workers.json
peers: [{{ include "tlt.name" (list . "gateway") }}-peers.{{ .Release.Namespace }}.svc:7700]
drain_s: {{ .Values.gateway.drainSeconds }}
spool_dir: /spool
spool_shared: {{ not (empty .Values.gateway.spool.claim) }}
{{- if empty .Values.gateway.spool.claim }}
spool_bytes: {{ include "tlt.bytes" .Values.gateway.spool.size }}
{{- end }}
{{- if .Values.auth.enabled }}
tokens: /etc/tlt/tokens/tokens.yaml
{{- end }}
{{- if .Values.gateway.http.enabled }}
http:
  listen: "[::]:7703"
  {{- if include "tlt.gateway.tokenizer" . }}
  tokenizer: {{ include "tlt.worker.model" . }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Whether gateways read the model's tokenizer; empty: no. */}}
{{- define "tlt.gateway.tokenizer" -}}
{{- if and .Values.gateway.http.enabled (eq .Values.gateway.http.tokenizer "model") }}true{{ end -}}
{{- end }}

{{- define "tlt.gateway.ports" -}}
{{- if .Values.gateway.http.enabled -}}
- {name: http, containerPort: 7703}
{{- end }}
{{- end }}

{{- define "tlt.gateway.mounts" -}}
- {name: spool, mountPath: /spool}
{{- if include "tlt.gateway.tokenizer" . }}
{{ include "tlt.model.mount" . }}
{{- end }}
{{- end }}

{{- define "tlt.gateway.volumes" -}}
- name: spool
  {{- with .Values.gateway.spool.claim }}
  persistentVolumeClaim: {claimName: {{ . }}}
  {{- else }}
  emptyDir: {sizeLimit: {{ .Values.gateway.spool.size }}}
  {{- end }}
{{- if include "tlt.gateway.tokenizer" . }}
{{ include "tlt.model.volume" . }}
{{- end }}
{{- end }}
