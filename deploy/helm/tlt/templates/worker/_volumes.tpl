{{/* Volumes of worker pods. */}}

{{- define "tlt.worker.mounts" -}}
- {name: tmp, mountPath: /tmp}
- {name: shared-mem, mountPath: /dev/shm}
{{- if include "tlt.tls" . }}
- {name: etc, mountPath: /etc/tlt, readOnly: true}
{{- end }}
{{ include "tlt.model.mount" . }}
{{- if ne .Values.drafters.source "url" }}
- {name: drafters, mountPath: /drafters}
{{- end }}
{{- if .Values.gateway.spool.claim }}
- {name: spool, mountPath: /spool, readOnly: true}
{{- end }}
{{- end }}

{{- define "tlt.worker.volumes" -}}
- name: tmp
  emptyDir: {sizeLimit: {{ .Values.worker.scratch }}}
- name: shared-mem
  emptyDir: {medium: Memory, sizeLimit: {{ .Values.worker.sharedMemory }}}
{{- if include "tlt.tls" . }}
- name: etc
  projected:
    defaultMode: 0440
    sources:
      - secret:
          name: {{ include "tlt.tls.secret" (list . "worker") }}
          items: [{key: tls.crt, path: tls/tls.crt}, {key: tls.key, path: tls/tls.key}, {key: ca.crt, path: tls/ca.crt}]
{{- end }}
{{ include "tlt.model.volume" . }}
{{- if eq .Values.drafters.source "pvc" }}
- name: drafters
  persistentVolumeClaim: {claimName: {{ include "tlt.drafters.claim" . }}}
{{- else if eq .Values.drafters.source "hostPath" }}
- name: drafters
  hostPath: {path: {{ .Values.drafters.hostPath.path }}, type: Directory}
{{- end }}
{{- with .Values.gateway.spool.claim }}
- name: spool
  persistentVolumeClaim: {claimName: {{ . }}, readOnly: true}
{{- end }}
{{- end }}

{{/* The model, in worker pods and in those of gateways that read its tokenizer. */}}
{{- define "tlt.model.mount" -}}
{{- if eq .Values.model.source "hostPath" -}}
- {name: model, mountPath: /models/policy, readOnly: true}
{{- else -}}
- {name: model, mountPath: /models, readOnly: true}
{{- end }}
{{- end }}

{{- define "tlt.model.volume" -}}
- name: model
  {{- if eq .Values.model.source "pvc" }}
  persistentVolumeClaim: {claimName: {{ .Values.model.pvc.claim }}, readOnly: true}
  {{- else if eq .Values.model.source "hostPath" }}
  # The restricted Pod Security Standard rejects hostPath; use it only where that is not enforced.
  hostPath: {path: {{ .Values.model.hostPath.path }}, type: Directory}
  {{- else }}
  emptyDir: {sizeLimit: {{ .Values.model.url.size }}}
  {{- end }}
{{- end }}

{{- define "tlt.drafters.claim" -}}
{{ .Values.drafters.pvc.existingClaim | default (include "tlt.name" (list . "drafters")) }}
{{- end }}
