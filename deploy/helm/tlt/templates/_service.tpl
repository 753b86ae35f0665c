{{/* Pods of the services that need no GPU. */}}

{{/*
The pod template. Argument: a dict of root, component, settings, and
  config   text of the configuration
  tokens   whether the service checks tokens
  env      additional environment variables, as text
  ports    additional ports, as text
  mounts   additional volume mounts, as text
  volumes  additional volumes, as text
  grace    termination grace period, in seconds
  preStop  seconds to keep serving before SIGTERM, until clients no longer connect to the pod
*/}}
{{- define "tlt.service.pod" -}}
{{- $root := .root -}}
metadata:
  {{- include "tlt.pods.metadata" (list $root .component .settings) | nindent 2 }}
  {{- if not (or .settings.podAnnotations $root.Values.global.podAnnotations) }}
  annotations:
  {{- end }}
    checksum/config: {{ .config | sha256sum }}
spec:
  {{- include "tlt.pods.spec" (list $root .component .settings) | nindent 2 }}
  {{- with .grace }}
  terminationGracePeriodSeconds: {{ . }}
  {{- end }}
  containers:
    - name: {{ .component }}
      image: {{ include "tlt.image" (list $root "slim") }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      command: [tlt, serve, {{ .component }}, --config, /etc/tlt/config.yaml]
      env:
        {{- with .env }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- include "tlt.pods.env" (list $root .settings) | nindent 8 }}
      ports:
        - {name: grpc, containerPort: {{ include "tlt.port" .component }}}
        - {name: metrics, containerPort: 9090}
        {{- with .ports }}
        {{- . | nindent 8 }}
        {{- end }}
      {{- include "tlt.service.probes" $root | nindent 6 }}
      {{- with .preStop }}
      lifecycle:
        preStop: {exec: {command: [sleep, {{ . | quote }}]}}
      {{- end }}
      resources:
        {{- toYaml .settings.resources | nindent 8 }}
      securityContext:
        {{- include "tlt.security.container" . | nindent 8 }}
      volumeMounts:
        - {name: etc, mountPath: /etc/tlt, readOnly: true}
        - {name: tmp, mountPath: /tmp}
        {{- with .mounts }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- include "tlt.pods.mounts" (list $root .settings) | nindent 8 }}
  volumes:
    - name: etc
      {{- include "tlt.service.etc" . | nindent 6 }}
    - name: tmp
      emptyDir: {sizeLimit: 1Gi}
    {{- with .volumes }}
    {{- . | nindent 4 }}
    {{- end }}
    {{- include "tlt.pods.volumes" (list $root .settings) | nindent 4 }}
{{- end }}

{{/* Files in /etc/tlt: config.yaml, tls/, tokens/. */}}
{{- define "tlt.service.etc" -}}
projected:
  defaultMode: 0440
  sources:
    - configMap: {name: {{ include "tlt.name" (list .root .component) }}}
    {{- if include "tlt.tls" .root }}
    - secret:
        name: {{ include "tlt.tls.secret" (list .root .component) }}
        items: [{key: tls.crt, path: tls/tls.crt}, {key: tls.key, path: tls/tls.key}, {key: ca.crt, path: tls/ca.crt}]
    {{- end }}
    {{- if and .tokens .root.Values.auth.enabled }}
    - secret:
        name: {{ include "tlt.auth.secret" .root }}
        items: [{key: tokens.yaml, path: tokens/tokens.yaml}]
    {{- end }}
{{- end }}

{{/* The kubelet's gRPC probe does not support TLS, so probes use the HTTP endpoints. */}}
{{- define "tlt.service.probes" -}}
{{- $scheme := ternary "HTTPS" "HTTP" (ne (include "tlt.tls.mode" .) "off") -}}
startupProbe:
  httpGet: {path: /livez, port: metrics, scheme: {{ $scheme }}}
  periodSeconds: 2
  failureThreshold: 60
# Fails at once if the event loop has not run for liveness_s. The timeout is long, since a starved process answers late.
livenessProbe:
  httpGet: {path: /livez, port: metrics, scheme: {{ $scheme }}}
  periodSeconds: 10
  timeoutSeconds: 10
readinessProbe:
  httpGet: {path: /readyz, port: metrics, scheme: {{ $scheme }}}
  periodSeconds: 2
  timeoutSeconds: 2
{{- end }}

{{/* Settings of every service. */}}
{{- define "tlt.service.everywhere" -}}
{{- include "tlt.tls.settings" . }}
{{- with .Values.traces }}
traces: {{ . | quote }}
{{- end }}
{{- end }}

{{/* A configuration file: (list USER FILLED...). The chart's mappings, given as text, override the user's mapping. */}}
{{- define "tlt.service.config" -}}
{{- $config := deepCopy (first .) -}}
{{- range rest . }}{{ $config = mustMergeOverwrite $config (fromYaml .) }}{{ end -}}
{{ toYaml $config }}
{{- end }}
