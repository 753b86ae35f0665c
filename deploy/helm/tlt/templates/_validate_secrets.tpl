{{/* Secrets that are named, and, where a cluster is there to be asked, exist and have what is needed. */}}

{{- define "tlt.validate.secrets" -}}
{{- $values := .Values }}
{{- if eq $values.redis.mode "external" }}
{{- if not $values.redis.existingSecret }}
{{- fail "\n\nredis.mode is external: set redis.existingSecret to {name: SECRET, key: KEY} of a secret that holds redis://:PASSWORD@HOST:PORT/0\n" }}
{{- end }}
{{- if and $values.networkPolicy.enabled (not $values.networkPolicy.redis) }}
{{- fail "\n\nredis.mode is external: set networkPolicy.redis to where it is, such as [{ipBlock: {cidr: 10.0.0.5/32}}], or networkPolicy.enabled to false\n" }}
{{- end }}
{{- include "tlt.validate.secret" (list . "redis.existingSecret.name" $values.redis.existingSecret.name (list $values.redis.existingSecret.key)) }}
{{- end }}
{{- with $values.auth.existingSecret }}
{{- include "tlt.validate.secret" (list $ "auth.existingSecret" . (list "tokens.yaml" "token")) }}
{{- end }}
{{- if eq (include "tlt.tls.mode" .) "secret" }}
{{- range $component, $secret := $values.tls.secrets }}
{{- if not $secret }}
{{- fail (printf "\n\ntls.mode is secret: set tls.secrets.%s to a secret with tls.crt, tls.key and ca.crt, whose certificate has the names %s\n" $component (include "tlt.tls.names" (list $ $component))) }}
{{- end }}
{{- include "tlt.validate.secret" (list $ (printf "tls.secrets.%s" $component) $secret (list "tls.crt" "tls.key" "ca.crt")) }}
{{- end }}
{{- end }}
{{- if eq (include "tlt.tls.mode" .) "certManager" }}
{{- if not $values.tls.certManager.issuer.name }}
{{- fail "\n\ntls.mode is certManager: set tls.certManager.issuer.name (and kind: Issuer or ClusterIssuer)\n" }}
{{- end }}
{{- if not (or (.Capabilities.APIVersions.Has "cert-manager.io/v1") (.Capabilities.APIVersions.Has "cert-manager.io/v1/Certificate")) }}
{{- fail "\n\ntls.mode is certManager, and this cluster has no cert-manager: install it, or set tls.mode to generated (`helm template`: --api-versions cert-manager.io/v1)\n" }}
{{- end }}
{{- end }}
{{- end }}

{{/* (list $ VALUE NAME KEYS). Without a cluster `lookup` finds no namespace either, and nothing can be said. */}}
{{- define "tlt.validate.secret" -}}
{{- $root := index . 0 }}
{{- $namespace := $root.Release.Namespace }}
{{- if lookup "v1" "Namespace" "" $namespace }}
{{- $secret := lookup "v1" "Secret" $namespace (index . 2) }}
{{- if not $secret }}
{{- fail (printf "\n\n%s: there is no secret %q in namespace %s\n" (index . 1) (index . 2) $namespace) }}
{{- end }}
{{- range index . 3 }}
{{- if not (hasKey ($secret.data | default dict) .) }}
{{- fail (printf "\n\n%s: the secret has no key %q\n" (index $ 1) .) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
