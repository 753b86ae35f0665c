{{/* TLS and tokens: modes, Secret names, certificate names. */}}

{{/* YAML parses an unquoted off as false. */}}
{{- define "tlt.tls.mode" -}}
{{ .Values.tls.mode | toString | replace "false" "off" }}
{{- end }}

{{/* "true" if TLS is enabled, else empty. */}}
{{- define "tlt.tls" -}}
{{ if ne (include "tlt.tls.mode" .) "off" }}true{{ end }}
{{- end }}

{{/* "true" if the chart's own Redis is encrypted, else empty. */}}
{{- define "tlt.redis.tls" -}}
{{ if and (eq .Values.redis.mode "standalone") .Values.redis.tls (include "tlt.tls" .) }}true{{ end }}
{{- end }}

{{/* Components that have a certificate, separated by commas. */}}
{{- define "tlt.tls.components" -}}
gateway,coordinator,cache,tuner,worker{{ if include "tlt.redis.tls" . }},redis{{ end }}
{{- end }}

{{/* Setting of the services that use Redis. An external one is verified by the system's CAs, or by redis_ca in config. */}}
{{- define "tlt.redis.settings" -}}
{{- if include "tlt.redis.tls" . -}}
redis_ca: /etc/tlt/tls/ca.crt
{{- end }}
{{- end }}

{{/* Secret that contains the certificate of a component: (list $ "gateway"). */}}
{{- define "tlt.tls.secret" -}}
{{- $root := first . -}}
{{- if eq (include "tlt.tls.mode" $root) "secret" -}}
{{ get $root.Values.tls.secrets (last .) }}
{{- else -}}
{{ include "tlt.name" . }}-tls
{{- end -}}
{{- end }}

{{/* DNS names of a component's certificate, separated by commas: the one that peers verify, then its Service's. */}}
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
{{- if eq $component "coordinator" -}}
{{- $names = concat $names $root.Values.coordinator.ingress.hosts | uniq -}}
{{- end -}}
{{ join "," $names }}
{{- end }}

{{/* TLS settings in a service's configuration. */}}
{{- define "tlt.tls.settings" -}}
{{- if include "tlt.tls" . -}}
tls: {certificate: /etc/tlt/tls/tls.crt, key: /etc/tlt/tls/tls.key, ca: /etc/tlt/tls/ca.crt}
{{- end }}
{{- end }}

{{/* Secret that contains the tokens. */}}
{{- define "tlt.auth.secret" -}}
{{ .Values.auth.existingSecret | default (include "tlt.name" (list . "tokens")) }}
{{- end }}
