{{/*
How the kubelet asks Redis for an answer. Its certificate is not verified: clients do that, and one that has expired must
not restart Redis.
*/}}
{{- define "tlt.redis.probe" -}}
{{- if .Values.redis.probe -}}
{{- $tls := ternary (list "--tls" "--insecure") list (eq (include "tlt.redis.tls" .) "true") -}}
exec: {command: {{ toJson (concat .Values.redis.probe $tls (list "-h" "127.0.0.1" "-p" "6379" "-e" "ping")) }}}
{{- else -}}
tcpSocket: {port: redis}
{{- end }}
{{- end }}
