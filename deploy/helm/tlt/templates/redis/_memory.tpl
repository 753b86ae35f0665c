{{/* Twice the cache's budget and 64 MiB: Redis counts its own bookkeeping, and keeps buffers for what is read. */}}
{{- define "tlt.redis.maxmemory" -}}
{{ add (mul 2 (.Values.cache.config.budget_bytes | default 536870912 | int64)) 67108864 }}
{{- end }}
