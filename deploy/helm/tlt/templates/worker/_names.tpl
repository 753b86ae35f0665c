{{/*
Name of the RayService. It ends in a hash of the Ray cluster's spec: KubeRay does not update a running cluster, not even
its size, and by default creates a second one next to it. So a changed cluster is a new RayService, whose pods wait for
the GPUs of the old one. The workers' configuration is not part of the hash: Serve updates it in place.
*/}}
{{- define "tlt.worker.name" -}}
{{ include "tlt.name" (list . "worker") }}-{{ include "tlt.worker.cluster" . | sha256sum | trunc 8 }}
{{- end }}

{{/* Directory of the model in worker pods. */}}
{{- define "tlt.worker.model" -}}
{{- if eq .Values.model.source "pvc" -}}
/models{{ with .Values.model.pvc.path }}/{{ trimAll "/" . }}{{ end }}
{{- else -}}
/models/policy
{{- end -}}
{{- end }}

{{/* Directory or URL of drafters and checkpoints. */}}
{{- define "tlt.worker.drafters" -}}
{{- if eq .Values.drafters.source "url" }}{{ trimSuffix "/" .Values.drafters.url.url }}{{ else }}/drafters{{ end }}
{{- end }}
