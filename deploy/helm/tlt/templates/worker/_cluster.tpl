{{/* The Ray cluster: a head for placement, and a group of workers. */}}
{{- define "tlt.worker.cluster" -}}
rayVersion: {{ .Values.worker.rayVersion | quote }}
enableInTreeAutoscaling: false
authOptions: {mode: {{ .Values.worker.rayAuth }}}
headGroupSpec:
  rayStartParams: {num-cpus: "0", num-gpus: "0", dashboard-host: {{ .Values.worker.head.dashboardHost | quote }}, object-store-memory: "83886080"}
  template:
    {{- include "tlt.worker.head.template" . | nindent 4 }}
workerGroupSpecs:
  - groupName: workers
    replicas: {{ .Values.worker.replicas }}
    minReplicas: {{ .Values.worker.replicas }}
    maxReplicas: {{ .Values.worker.replicas }}
    # KubeRay's operator writes this field. Where nobody owns it, its update takes over the whole list from Helm, whose
    # next upgrade then ends with a conflict over workerGroupSpecs.
    scaleStrategy: {}
    rayStartParams:
      # One slot and one logical CPU per pod: one replica per pod, whatever CPU the pod requests.
      resources: '"{\"tlt-worker\": 1}"'
      num-cpus: "1"
      num-gpus: {{ .Values.worker.gpus | quote }}
      object-store-memory: "83886080"
    template:
      {{- include "tlt.worker.template" . | nindent 6 }}
{{- end }}
