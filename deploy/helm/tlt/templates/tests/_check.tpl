{{/* Settings of the check. */}}
{{- define "tlt.test.settings" -}}
{{- $operations := dict "gateway" (printf "%s-metrics.%s.svc:9090" (include "tlt.name" (list . "gateway")) .Release.Namespace) -}}
{{- range $component := list "coordinator" "cache" "tuner" }}
{{- $_ := set $operations $component (printf "%s.%s.svc:9090" (include "tlt.name" (list $ $component)) $.Release.Namespace) }}
{{- end -}}
{{- $ca := ternary "/etc/tlt/ca.crt" "" (ne (include "tlt.tls.mode" .) "off") -}}
{{- $token := ternary "/etc/tlt/token" "" .Values.auth.enabled -}}
{{- $ray := printf "%s.%s.svc:8265" (include "tlt.name" (list . "test")) .Release.Namespace -}}
{{ dict "gateway" (include "tlt.address" (list . "gateway")) "ray" $ray "closed" .Values.networkPolicy.enabled "operations" $operations "ca" $ca "token" $token "patience_s" .Values.test.patienceSeconds | toJson }}
{{- end }}

{{/* Files of the check: script, CA and token. */}}
{{- define "tlt.test.etc" -}}
projected:
  defaultMode: 0440
  sources:
    - configMap: {name: {{ include "tlt.name" (list . "test") }}}
    {{- if include "tlt.tls" . }}
    - secret: {name: {{ include "tlt.tls.secret" (list . "gateway") }}, items: [{key: ca.crt, path: ca.crt}]}
    {{- end }}
    {{- if .Values.auth.enabled }}
    - secret: {name: {{ include "tlt.auth.secret" . }}, items: [{key: token, path: token}]}
    {{- end }}
{{- end }}
