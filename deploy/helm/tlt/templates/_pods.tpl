{{/* Common parts of all pods. Argument: (list $ COMPONENT SETTINGS). */}}

{{- define "tlt.pods.metadata" -}}
{{- $settings := index . 2 -}}
{{- $root := index . 0 -}}
labels:
  {{- /* Without chart versions: a new version alone must not replace pods. */}}
  {{- include "tlt.selector" (list $root (index . 1)) | nindent 2 }}
  {{- with $root.Values.labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- with $settings.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $settings.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "tlt.pods.spec" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $settings := index . 2 -}}
serviceAccountName: {{ include "tlt.name" (list $root $component) }}
automountServiceAccountToken: {{ eq $component "coordinator" }}
enableServiceLinks: false
securityContext:
  {{- include "tlt.security.pod" . | nindent 2 }}
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $settings.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $settings.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $settings.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $settings.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $settings.topologySpread }}
topologySpreadConstraints:
  {{- range . }}
  - topologyKey: {{ .topologyKey | default "kubernetes.io/hostname" }}
    maxSkew: {{ .maxSkew | default 1 }}
    whenUnsatisfiable: {{ .whenUnsatisfiable | default "ScheduleAnyway" }}
    labelSelector:
      matchLabels:
        {{- include "tlt.selector" (list $root $component) | nindent 8 }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Environment variables, in the form used in values. */}}
{{- define "tlt.env" -}}
{{- range . }}
- name: {{ .name }}
  {{- with .secret }}
  valueFrom: {secretKeyRef: {name: {{ .name }}, key: {{ .key }}}}
  {{- else }}
  value: {{ .value | default "" | quote }}
  {{- end }}
{{- end }}
{{- end }}

{{/* A pod field as environment variable: (list NAME PATH). */}}
{{- define "tlt.env.field" -}}
- name: {{ first . }}
  valueFrom: {fieldRef: {fieldPath: {{ last . }}}}
{{- end }}
