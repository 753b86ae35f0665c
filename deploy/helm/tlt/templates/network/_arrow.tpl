{{/* NetworkPolicies. Connections that no policy allows are denied. */}}

{{/* Metadata and pod selector of a component's policy: (list $ COMPONENT SUFFIX). */}}
{{- define "tlt.network.head" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "tlt.metadata" . | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "tlt.selector" (list (index . 0) (index . 1)) | nindent 6 }}
{{- end }}

{{/* TCP ports: (list PORT...). */}}
{{- define "tlt.network.ports" -}}
ports:
  {{- range . }}
  - {protocol: TCP, port: {{ . }}}
  {{- end }}
{{- end }}

{{/* Components of this release as peers: (list $ COMPONENT...). */}}
{{- define "tlt.network.components" -}}
{{- $root := first . -}}
- podSelector:
    matchLabels: {app.kubernetes.io/name: tlt, app.kubernetes.io/instance: {{ $root.Release.Name }}}
    matchExpressions:
      - {key: app.kubernetes.io/component, operator: In, values: {{ rest . | toJson }}}
{{- end }}

{{/* Peers, in the form used in values. */}}
{{- define "tlt.network.peers" -}}
{{- range . }}
- {{ with .ipBlock -}}
  ipBlock: {{ dict "cidr" .cidr "except" (.excluding | default list) | toJson }}
  {{- else -}}
  {{ omit . "ipBlock" | toYaml | nindent 2 | trim }}
  {{- end }}
{{- end }}
{{- end }}
