{{/* Secrets must be named and, if the cluster can be queried, exist and contain the required keys. */}}

{{- define "tlt.validate.secrets" -}}
{{- $values := .Values }}
{{- if eq $values.redis.mode "external" }}
{{- if not $values.redis.existingSecret }}
{{- fail "\n\nredis.mode is external: set redis.existingSecret to {name: SECRET, key: KEY} of a Secret that contains redis://:PASSWORD@HOST:PORT/0\n" }}
{{- end }}
{{- if and $values.networkPolicy.enabled (not $values.networkPolicy.redis) }}
{{- fail "\n\nredis.mode is external: set networkPolicy.redis to its address, such as [{ipBlock: {cidr: 10.0.0.5/32}}], or networkPolicy.enabled to false\n" }}
{{- end }}
{{- include "tlt.validate.secret" (list . "redis.existingSecret.name" $values.redis.existingSecret.name (list $values.redis.existingSecret.key)) }}
{{- end }}
{{- with $values.auth.existingSecret }}
{{- include "tlt.validate.secret" (list $ "auth.existingSecret" . (list "tokens.yaml" "token")) }}
{{- end }}
{{- if eq (include "tlt.tls.mode" .) "secret" }}
{{- range $component := splitList "," (include "tlt.tls.components" .) | sortAlpha }}
{{- $secret := get $values.tls.secrets $component }}
{{- if not $secret }}
{{- fail (printf "\n\ntls.mode is secret: set tls.secrets.%s to a Secret with tls.crt, tls.key and ca.crt whose certificate contains the names %s\n" $component (include "tlt.tls.names" (list $ $component))) }}
{{- end }}
{{- include "tlt.validate.secret" (list $ (printf "tls.secrets.%s" $component) $secret (list "tls.crt" "tls.key" "ca.crt")) }}
{{- end }}
{{- end }}
{{- if eq (include "tlt.tls.mode" .) "certManager" }}
{{- if not $values.tls.certManager.issuer.name }}
{{- fail "\n\ntls.mode is certManager: set tls.certManager.issuer.name (and kind: Issuer or ClusterIssuer)\n" }}
{{- end }}
{{- if not (or (.Capabilities.APIVersions.Has "cert-manager.io/v1") (.Capabilities.APIVersions.Has "cert-manager.io/v1/Certificate")) }}
{{- fail "\n\ntls.mode is certManager but this cluster has no cert-manager: install it, or set tls.mode to generated (`helm template`: --api-versions cert-manager.io/v1)\n" }}
{{- end }}
{{- end }}
{{- end }}

{{/* (list $ VALUE NAME KEYS). Without a cluster, `lookup` returns nothing and the check is skipped. */}}
{{- define "tlt.validate.secret" -}}
{{- $root := index . 0 }}
{{- $namespace := $root.Release.Namespace }}
{{- if lookup "v1" "Namespace" "" $namespace }}
{{- $secret := lookup "v1" "Secret" $namespace (index . 2) }}
{{- if not $secret }}
{{- fail (printf "\n\n%s: Secret %q does not exist in namespace %s\n" (index . 1) (index . 2) $namespace) }}
{{- end }}
{{- range index . 3 }}
{{- if not (hasKey ($secret.data | default dict) .) }}
{{- fail (printf "\n\n%s: the Secret has no key %q\n" (index $ 1) .) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
