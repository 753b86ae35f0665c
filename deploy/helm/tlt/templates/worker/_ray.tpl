{{/* Common parts of Ray's containers. */}}

{{/* Replace KubeRay's default probes, which need wget and, in workers, Serve's proxy. */}}
{{- define "tlt.ray.probes" -}}
startupProbe:
  httpGet: {path: /api/local_raylet_healthz, port: agent}
  periodSeconds: 2
  failureThreshold: 90
livenessProbe:
  httpGet: {path: /api/local_raylet_healthz, port: agent}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 12
readinessProbe:
  httpGet: {path: /api/local_raylet_healthz, port: agent}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}

{{- define "tlt.ray.env" -}}
- {name: RAY_USAGE_STATS_ENABLED, value: "0"}
# With Ray's default of 15, engines would be starved by whatever else runs on the node, and hardly outweigh the trainer.
- {name: RAY_worker_niceness, value: "0"}
{{- end }}
