{{/* Names and labels. Every object is RELEASE-tlt-COMPONENT, or RELEASE-COMPONENT when the release is called tlt. */}}

{{- define "tlt.fullname" -}}
{{- $name := contains "tlt" .Release.Name | ternary .Release.Name (printf "%s-tlt" .Release.Name) -}}
{{- /* KubeRay limits RayService names to 47 characters, and ours end in -worker-HASH. */ -}}
{{- if gt (len $name) 31 }}{{ fail (printf "release name %q is too long: use at most 27 characters" .Release.Name) }}{{ end -}}
{{- $name -}}
{{- end }}

{{/* Name of a component: (list $ "gateway"). */}}
{{- define "tlt.name" -}}
{{ include "tlt.fullname" (first .) }}-{{ last . }}
{{- end }}

{{- define "tlt.selector" -}}
app.kubernetes.io/name: tlt
app.kubernetes.io/instance: {{ (first .).Release.Name }}
app.kubernetes.io/component: {{ last . }}
{{- end }}

{{- define "tlt.labels" -}}
{{- $root := first . -}}
{{ include "tlt.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- with $root.Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* metadata of a component's object: (list $ "gateway"), or (list $ "gateway" "suffix"). */}}
{{- define "tlt.metadata" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
name: {{ include "tlt.name" (list $root $component) }}{{ if gt (len .) 2 }}-{{ index . 2 }}{{ end }}
namespace: {{ $root.Release.Namespace }}
labels:
  {{- include "tlt.labels" (list $root $component) | nindent 2 }}
{{- end }}

{{/* Address of a component's gRPC port: (list $ "gateway"). */}}
{{- define "tlt.address" -}}
{{ include "tlt.name" . }}.{{ (first .).Release.Namespace }}.svc:{{ include "tlt.port" (last .) }}
{{- end }}

{{/* Bytes of a Kubernetes quantity: the size at which the kubelet evicts who exceeds it. */}}
{{- define "tlt.bytes" -}}
{{- $units := dict "" 1 "m" 0.001 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- mulf (regexFind "^[0-9.]+" .) (get $units (regexFind "[a-zA-Z]*$" .)) | int64 -}}
{{- end }}

{{/* Fleet name: separates releases that share a Redis. */}}
{{- define "tlt.fleet" -}}
{{ .Release.Namespace }}/{{ include "tlt.fullname" . }}
{{- end }}

{{- define "tlt.port" -}}
{{ get (dict "gateway" "7700" "coordinator" "7701" "cache" "7703" "tuner" "7704" "worker" "7705" "redis" "6379") . }}
{{- end }}

{{/* An image of the suite: (list $ "slim"). */}}
{{- define "tlt.image" -}}
{{- $root := first . -}}
{{- $image := get $root.Values.image (last .) -}}
{{- with $root.Values.image.registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{ $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default $root.Chart.AppVersion }}{{ end }}
{{- end }}
