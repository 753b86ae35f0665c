{{/*
Name of the RayService. It ends in a hash of the Ray cluster: KubeRay changes no cluster that runs, not even its size, and
by default makes a second one beside it. So another cluster is another RayService, whose pods wait for the GPUs of the
old one. What workers are told is not part of it: Serve changes that in place.
*/}}
{{- define "tlt.worker.name" -}}
{{ include "tlt.name" (list . "worker") }}-{{ include "tlt.worker.cluster" . | sha256sum | trunc 8 }}
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
