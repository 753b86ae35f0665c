{{/* Settings of all pods (`global`) and of one component, which take precedence, as one mapping: (list $ SETTINGS). */}}
{{- define "tlt.pods.settings" -}}
{{- $global := (first .).Values.global -}}
{{- $settings := deepCopy (last .) -}}
{{- range list "nodeSelector" "podLabels" "podAnnotations" }}
{{- $_ := set $settings . (merge dict (get $settings . | default dict) (get $global . | default dict)) }}
{{- end }}
{{- $_ := set $settings "tolerations" (concat ($global.tolerations | default list) ($settings.tolerations | default list)) }}
{{- $_ := set $settings "affinity" ($settings.affinity | default $global.affinity) }}
{{- toYaml $settings }}
{{- end }}

{{/* Environment variables of a container: (list $ SETTINGS...). Of those with one name, the last counts. */}}
{{- define "tlt.pods.env" -}}
{{- $values := (first .).Values -}}
{{- $found := dict -}}
{{- $names := list -}}
{{- $own := list (dict "name" "HOME" "value" "/tmp") -}}
{{- if not $values.securityContext.runAsUser -}}
{{- /* A user that the cluster assigns has no entry in the image's passwd, in which libraries look for its name. */ -}}
{{- $own = append $own (dict "name" "USER" "value" "tlt") -}}
{{- end -}}
{{- range concat (list (dict "env" $own) $values.global) (rest .) }}
{{- range .env }}
{{- $_ := set $found .name . }}
{{- $names = append $names .name }}
{{- end }}
{{- end }}
{{- range uniq $names }}
{{- with get $found . }}
- name: {{ .name }}
  {{- with .secret }}
  valueFrom: {secretKeyRef: {name: {{ .name }}, key: {{ .key }}}}
  {{- else }}
  value: {{ .value | default "" | quote }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Additional mounts of a container: (list $ SETTINGS...). */}}
{{- define "tlt.pods.mounts" -}}
{{- range prepend (rest .) (first .).Values.global }}
{{- with .volumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}

{{/* Additional volumes of a pod: (list $ SETTINGS). */}}
{{- define "tlt.pods.volumes" -}}
{{- range prepend (rest .) (first .).Values.global }}
{{- with .volumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}

{{/* A pod field as environment variable: (list NAME PATH). */}}
{{- define "tlt.env.field" -}}
- name: {{ first . }}
  valueFrom: {fieldRef: {fieldPath: {{ last . }}}}
{{- end }}
