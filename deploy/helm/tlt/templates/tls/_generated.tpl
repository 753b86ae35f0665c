{{/*
Secret that contains a certificate: (list $ COMPONENT CA DAYS). An existing certificate is kept, unless its names or its
CA have changed, or it is in the last third of its lifetime.
*/}}
{{- define "tlt.tls.generated" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $ca := index . 2 -}}
{{- $days := index . 3 -}}
{{- $names := include "tlt.tls.names" (list $root $component) -}}
{{- $name := include "tlt.tls.secret" (list $root $component) -}}
{{- $old := lookup "v1" "Secret" $root.Release.Namespace $name | default dict -}}
{{- $issued := dig "metadata" "annotations" "tlt.dev/issued" "0" $old | int64 -}}
{{- $young := lt (now | unixEpoch | int64) (add $issued (mul $days 57600)) -}}
{{- $same := eq $names (dig "metadata" "annotations" "tlt.dev/names" "" $old) -}}
{{- $signed := eq ($ca.Cert | b64enc) (dig "data" "ca.crt" "" $old) -}}
{{- $certificate := dict -}}
{{- if and $young $same $signed -}}
{{- $certificate = dict "Cert" (get $old.data "tls.crt" | b64dec) "Key" (get $old.data "tls.key" | b64dec) -}}
{{- else -}}
{{- $issued = now | unixEpoch | int64 -}}
{{- $certificate = genSignedCert (printf "%s.tlt.internal" $component) (list "127.0.0.1") (concat (list) (splitList "," $names)) $days $ca -}}
{{- end -}}
apiVersion: v1
kind: Secret
type: kubernetes.io/tls
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "tlt.labels" (list $root $component) | nindent 4 }}
  annotations:
    tlt.dev/issued: {{ $issued | toString | quote }}
    tlt.dev/names: {{ $names }}
stringData:
  tls.crt: {{ $certificate.Cert | quote }}
  tls.key: {{ $certificate.Key | quote }}
  ca.crt: {{ $ca.Cert | quote }}
{{- end }}
