{{/*
Name of the RayService. It ends in a hash of the pod templates: KubeRay has no rolling update of pods, so that new pods
mean a new RayService, whose pods wait for the GPUs of the old one. What workers are told is not part of it: Serve
changes that in place.
*/}}
{{- define "tlt.worker.name" -}}
{{- $pods := printf "%s\n%s" (include "tlt.worker.head.template" .) (include "tlt.worker.template" .) -}}
{{ include "tlt.name" (list . "worker") }}-{{ sha256sum $pods | trunc 8 }}
{{- end }}

{{/* Directory of the model in pods. */}}
{{- define "tlt.worker.model" -}}
{{- if eq .Values.model.source "pvc" -}}
/models{{ with .Values.model.pvc.path }}/{{ trimAll "/" . }}{{ end }}
{{- else -}}
/models/policy
{{- end -}}
{{- end }}

{{/* Where drafters and checkpoints are. */}}
{{- define "tlt.worker.drafters" -}}
{{- if eq .Values.drafters.source "url" }}{{ trimSuffix "/" .Values.drafters.url.url }}{{ else }}/drafters{{ end }}
{{- end }}
