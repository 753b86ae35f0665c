{{/* Twice the cache's budget plus 64 MiB: Redis counts its overhead and client output buffers. */}}
{{- define "tlt.redis.maxmemory" -}}
{{ add (mul 2 (.Values.cache.config.budget_bytes | default 536870912 | int64)) 67108864 }}
{{- end }}
