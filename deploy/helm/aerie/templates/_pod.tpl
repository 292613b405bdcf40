{{- /* What the pods of coordinator and worker have in common: .root, .component, .values, .grace, .image's program. */ -}}
{{- define "aerie.pod" -}}
{{- $scheme := ternary ", scheme: HTTPS" "" (and (eq .component "coordinator") (hasKey .root.Values.secrets "server.tls_cert")) -}}
metadata:
  annotations:
    checksum/config: {{ include "aerie.config" .root | sha256sum }}
    kubectl.kubernetes.io/default-container: {{ .component }}
    {{- with .values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  labels:
    {{- include "aerie.labels" . | nindent 4 }}
    {{- with .values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "aerie.serviceAccount" .root }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .grace }}
  {{- with .root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  securityContext:
    {{- toYaml .root.Values.podSecurityContext | nindent 4 }}
  affinity:
    {{- if .values.affinity }}
    {{- toYaml .values.affinity | nindent 4 }}
    {{- else }}
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 100
          podAffinityTerm:
            topologyKey: kubernetes.io/hostname
            labelSelector:
              matchLabels:
                {{- include "aerie.selector" . | nindent 16 }}
    {{- end }}
  topologySpreadConstraints:
    {{- if .values.topologySpreadConstraints }}
    {{- toYaml .values.topologySpreadConstraints | nindent 4 }}
    {{- else }}
    - maxSkew: 1
      topologyKey: topology.kubernetes.io/zone
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "aerie.selector" . | nindent 10 }}
    {{- end }}
  {{- with .values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: {{ .component }}
      image: {{ include "aerie.image" .root }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      command: [/usr/local/bin/{{ .component }}]
      args: [--config, /etc/aerie/aerie.yaml]
      workingDir: /tmp
      {{- with .root.Values.env }}
      env:
        {{- range $name := keys . | sortAlpha }}
        - name: {{ $name }}
          value: {{ index $.root.Values.env $name | quote }}
        {{- end }}
      {{- end }}
      ports:
        - name: http
          containerPort: {{ int .values.port }}
          protocol: TCP
      # A process that lives is not killed because a server is away: liveness asks only whether it answers.
      startupProbe:
        httpGet: {path: /healthz, port: http{{ $scheme }}}
        periodSeconds: 2
        failureThreshold: 60
      livenessProbe:
        httpGet: {path: /healthz, port: http{{ $scheme }}}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /readyz, port: http{{ $scheme }}}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 3
      securityContext:
        {{- toYaml .root.Values.securityContext | nindent 8 }}
      resources:
        {{- toYaml .values.resources | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/aerie/aerie.yaml, subPath: aerie.yaml, readOnly: true}
        - {name: tmp, mountPath: /tmp}
        {{- if .root.Values.secrets }}
        - {name: secrets, mountPath: /etc/aerie/secrets, readOnly: true}
        {{- end }}
  volumes:
    - name: config
      configMap:
        name: {{ include "aerie.fullname" .root }}
    - name: tmp
      emptyDir:
        sizeLimit: {{ .values.spool.sizeLimit }}
    {{- if .root.Values.secrets }}
    - name: secrets
      projected:
        defaultMode: 0440
        sources:
          {{- range $key := keys .root.Values.secrets | sortAlpha }}
          {{- with index $.root.Values.secrets $key }}
          - secret:
              name: {{ .existingSecret }}
              items:
                - {key: {{ .key | quote }}, path: {{ $key }}}
          {{- end }}
          {{- end }}
    {{- end }}
{{- end -}}
