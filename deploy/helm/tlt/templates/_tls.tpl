{{/* Encryption and tokens: modes, names of secrets, names in certificates. */}}

{{/* YAML reads an unquoted off as false. */}}
{{- define "tlt.tls.mode" -}}
{{ .Values.tls.mode | toString | replace "false" "off" }}
{{- end }}

{{/* "true" or nothing. */}}
{{- define "tlt.tls" -}}
{{ if ne (include "tlt.tls.mode" .) "off" }}true{{ end }}
{{- end }}

{{/* Secret with the certificate of a component: (list $ "gateway"). */}}
{{- define "tlt.tls.secret" -}}
{{- $root := first . -}}
{{- if eq (include "tlt.tls.mode" $root) "secret" -}}
{{ get $root.Values.tls.secrets (last .) }}
{{- else -}}
{{ include "tlt.name" . }}-tls
{{- end -}}
{{- end }}

{{/* Names in the certificate of a component, separated by commas: the one others expect, then its Service's. */}}
{{- define "tlt.tls.names" -}}
{{- $root := first . -}}
{{- $component := last . -}}
{{- $service := include "tlt.name" . -}}
{{- $namespace := $root.Release.Namespace -}}
{{- $names := list (printf "%s.tlt.internal" $component) "localhost" $service (printf "%s.%s" $service $namespace) (printf "%s.%s.svc" $service $namespace) -}}
{{- $names = append $names (printf "%s.%s.svc.%s" $service $namespace $root.Values.clusterDomain) -}}
{{- if eq $component "gateway" -}}
{{- $names = concat $names $root.Values.gateway.ingress.hosts $root.Values.gateway.grpcRoute.hostnames | uniq -}}
{{- end -}}
{{ join "," $names }}
{{- end }}

{{/* What a service's configuration says of it. */}}
{{- define "tlt.tls.settings" -}}
{{- if include "tlt.tls" . -}}
tls: {certificate: /etc/tlt/tls/tls.crt, key: /etc/tlt/tls/tls.key, ca: /etc/tlt/tls/ca.crt}
{{- end }}
{{- end }}

{{/* Secret with tokens. */}}
{{- define "tlt.auth.secret" -}}
{{ .Values.auth.existingSecret | default (include "tlt.name" (list . "tokens")) }}
{{- end }}
