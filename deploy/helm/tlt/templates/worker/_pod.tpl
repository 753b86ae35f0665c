{{/* Pod of a worker: one engine and its spot trainer. */}}
{{- define "tlt.worker.template" -}}
{{- $worker := .Values.worker -}}
metadata:
  {{- include "tlt.pods.metadata" (list . "worker" $worker) | nindent 2 }}
spec:
  {{- include "tlt.pods.spec" (list . "worker" $worker) | nindent 2 }}
  {{- with $worker.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  terminationGracePeriodSeconds: {{ add $worker.drainSeconds 60 }}
  initContainers:
    {{- if eq .Values.model.source "url" }}
    {{- include "tlt.worker.fetch" . | nindent 4 }}
    {{- end }}
    {{- include "tlt.worker.check" . | nindent 4 }}
  containers:
    - name: ray-worker
      image: {{ include "tlt.image" (list . "engine") }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      env:
        {{- include "tlt.ray.env" . | nindent 8 }}
        {{- include "tlt.env.field" (list "TLT_WORKER_POD" "metadata.name") | nindent 8 }}
        {{- include "tlt.env.field" (list "TLT_WORKER_ADVERTISE" "status.podIP") | nindent 8 }}
        {{- include "tlt.pods.env" (list . $worker) | nindent 8 }}
      {{- if and (eq .Values.drafters.source "url") .Values.drafters.url.secret }}
      envFrom:
        - secretRef: {name: {{ .Values.drafters.url.secret }}}
      {{- end }}
      ports:
        - {name: grpc, containerPort: 7705}
        - {name: metrics, containerPort: 9090}
        - {name: trainer-metrics, containerPort: 9091}
        - {name: agent, containerPort: 52365}
      {{- include "tlt.ray.probes" . | nindent 6 }}
      lifecycle:
        # Covers the time Serve gives a replica to shut down; the rest of the grace period is for Ray.
        preStop: {exec: {command: [python, -m, tlt_worker.placement.leave, {{ add $worker.drainSeconds 15 | quote }}]}}
      resources:
        {{- include "tlt.worker.resources" . | nindent 8 }}
      securityContext:
        {{- include "tlt.security.container" . | nindent 8 }}
      volumeMounts:
        {{- include "tlt.worker.mounts" . | nindent 8 }}
        {{- include "tlt.pods.mounts" (list . $worker) | nindent 8 }}
  volumes:
    {{- include "tlt.worker.volumes" . | nindent 4 }}
    {{- include "tlt.pods.volumes" (list . $worker) | nindent 4 }}
{{- end }}

{{/* Kubernetes requires equal requests and limits for GPUs. */}}
{{- define "tlt.worker.resources" -}}
{{- $resources := deepCopy .Values.worker.resources -}}
{{- if .Values.worker.gpus -}}
{{- $gpus := dict .Values.worker.gpuResource (.Values.worker.gpus | toString) -}}
{{- $resources = mustMergeOverwrite $resources (dict "limits" $gpus "requests" $gpus) -}}
{{- end -}}
{{ toYaml $resources }}
{{- end }}

{{/* Downloads the complete model before the engine starts. */}}
{{- define "tlt.worker.fetch" -}}
- name: fetch
  image: {{ include "tlt.image" (list . "engine") }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [tlt, fetch, {{ .Values.model.url.url | quote }}, /models/policy]
  terminationMessagePolicy: FallbackToLogsOnError
  env:
    {{- include "tlt.pods.env" (list . .Values.worker .Values.worker.fetch) | nindent 4 }}
  {{- with .Values.model.url.secret }}
  envFrom:
    - secretRef: {name: {{ . }}}
  {{- end }}
  resources:
    {{- toYaml .Values.worker.fetch.resources | nindent 4 }}
  securityContext:
    {{- include "tlt.security.container" . | nindent 4 }}
  volumeMounts:
    - {name: model, mountPath: /models}
    - {name: tmp, mountPath: /tmp}
    {{- include "tlt.pods.mounts" (list . .Values.worker .Values.worker.fetch) | nindent 4 }}
{{- end }}

{{/* Refuses a model that no engine runs, with the reason in the pod's status, before Ray starts. */}}
{{- define "tlt.worker.check" -}}
- name: check
  image: {{ include "tlt.image" (list . "engine") }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  # Only what is part of the cluster's specification anyway: Serve changes everything else in running pods.
  command: [tlt, engine, check, --set, model={{ include "tlt.worker.model" . }}, --set, engine.tensor_parallel={{ max 1 .Values.worker.gpus }}]
  terminationMessagePolicy: FallbackToLogsOnError
  env:
    {{- include "tlt.pods.env" (list . .Values.worker .Values.worker.check) | nindent 4 }}
  resources:
    {{- toYaml .Values.worker.check.resources | nindent 4 }}
  securityContext:
    {{- include "tlt.security.container" . | nindent 4 }}
  volumeMounts:
    {{- include "tlt.model.mount" . | nindent 4 }}
    - {name: tmp, mountPath: /tmp}
    {{- include "tlt.pods.mounts" (list . .Values.worker .Values.worker.check) | nindent 4 }}
{{- end }}
