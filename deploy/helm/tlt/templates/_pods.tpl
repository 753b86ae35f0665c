{{/* Common parts of all pods. Argument: (list $ COMPONENT SETTINGS). */}}

{{- define "tlt.pods.metadata" -}}
{{- $root := index . 0 -}}
{{- $settings := include "tlt.pods.settings" (list $root (index . 2)) | fromYaml -}}
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
{{- $settings := include "tlt.pods.settings" (list $root (index . 2)) | fromYaml -}}
serviceAccountName: {{ include "tlt.name" (list $root $component) }}
automountServiceAccountToken: {{ eq $component "coordinator" }}
enableServiceLinks: false
securityContext:
  {{- include "tlt.security.pod" $root | nindent 2 }}
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

