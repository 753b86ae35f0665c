{{/* Whether to create an object of a kind that not every cluster has: (list $ ENABLED API). auto: if the cluster has the API. */}}
{{- define "tlt.wanted" -}}
{{- $known := (index . 0).Capabilities.APIVersions.Has (index . 2) -}}
{{- $enabled := index . 1 | toString -}}
{{ if or (eq $enabled "true") (and (eq $enabled "auto") $known) }}true{{ end }}
{{- end }}
