{{/* Pod of Ray's head. It has no logical CPUs, so that no actor is placed on it. */}}
{{- define "tlt.worker.head.template" -}}
{{- $head := .Values.worker.head -}}
metadata:
  {{- include "tlt.pods.metadata" (list . "head" $head) | nindent 2 }}
spec:
  {{- include "tlt.pods.spec" (list . "head" $head) | nindent 2 }}
  containers:
    - name: ray-head
      image: {{ include "tlt.image" (list . "engine") }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      env:
        {{- include "tlt.ray.env" . | nindent 8 }}
        {{- include "tlt.pods.env" (list . $head) | nindent 8 }}
      ports:
        - {name: gcs-server, containerPort: 6379}
        - {name: dashboard, containerPort: 8265}
        - {name: client, containerPort: 10001}
        - {name: agent, containerPort: 52365}
        # Unused, but KubeRay does not report a RayService as ready without it.
        - {name: serve, containerPort: 8000}
      {{- include "tlt.ray.probes" . | nindent 6 }}
      resources:
        {{- toYaml $head.resources | nindent 8 }}
      securityContext:
        {{- include "tlt.security.container" . | nindent 8 }}
      volumeMounts:
        - {name: tmp, mountPath: /tmp}
        - {name: shared-mem, mountPath: /dev/shm}
        {{- include "tlt.pods.mounts" (list . $head) | nindent 8 }}
  volumes:
    - name: tmp
      emptyDir: {sizeLimit: 10Gi}
    - name: shared-mem
      emptyDir: {medium: Memory, sizeLimit: 256Mi}
    {{- include "tlt.pods.volumes" (list . $head) | nindent 4 }}
{{- end }}
