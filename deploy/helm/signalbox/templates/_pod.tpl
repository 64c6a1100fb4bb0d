{{/* The environment of a service. (dict "root" $ "name" "auth" "spec" .. "set" ..) */}}
{{- define "signalbox.env" -}}
{{- $v := .root.Values -}}
{{- $full := include "signalbox.fullname" .root -}}
{{- $upper := upper .name -}}
{{- $env := dict
  "SERVICE_PUBLIC_URL" (include "signalbox.publicUrl" .root)
  "SERVICE_PEERS" (include "signalbox.peers" .root)
  "SERVICE_ADMIN_LISTEN" ":7100"
  "SERVICE_LOG_LEVEL" $v.log.level
  "SERVICE_TLS_CA" "/etc/signalbox/tls/ca.crt"
  "SERVICE_TLS_CERT" "/etc/signalbox/tls/tls.crt"
  "SERVICE_TLS_KEY" "/etc/signalbox/tls/tls.key"
  "SERVICE_DRAIN_DELAY" (printf "%ds" (int .set.drainDelaySeconds))
  "SERVICE_STOP_GRACE" (printf "%ds" (int .set.stopGraceSeconds)) -}}
{{- with $v.otlpEndpoint }}{{ $_ := set $env "SERVICE_OTLP_ENDPOINT" . }}{{ end -}}
{{- if .spec.schema -}}
  {{- $_ := set $env (printf "SERVICE_%s_LISTEN" $upper) (printf ":%d" (int .spec.grpc)) -}}
  {{- $_ := set $env (printf "SERVICE_%s_DATABASE_URL_FILE" $upper) "/etc/signalbox/secrets/database-url" -}}
  {{- $_ := set $env "SERVICE_AUDIT_KEY_FILE" "/etc/signalbox/secrets/audit-key" -}}
  {{- $_ := set $env "SERVICE_AUDIT_DIR" "/var/lib/signalbox/audit" -}}
{{- end -}}
{{- if .spec.keyring }}{{ $_ := set $env "SERVICE_KEYRING_FILE" "/etc/signalbox/secrets/keyring" }}{{ end -}}
{{- if .spec.http }}{{ $_ := set $env (printf "SERVICE_%s_HTTP_LISTEN" $upper) (printf ":%d" (int .spec.http)) }}{{ end -}}
{{- if .spec.agents -}}
  {{- $_ := set $env (printf "SERVICE_%s_AGENT_LISTEN" $upper) (printf ":%d" (int .spec.agents)) -}}
  {{- $_ := set $env (printf "SERVICE_%s_AGENT_ADDRESS" $upper) (default (printf "%s-agents.%s.svc:%d" $full .root.Release.Namespace (int $v.agents.service.port)) $v.agents.address) -}}
  {{- $_ := set $env (printf "SERVICE_%s_CA_DIR" $upper) "/etc/signalbox/ca" -}}
{{- end -}}
{{- if .spec.spool }}{{ $_ := set $env (printf "SERVICE_%s_SPOOL" $upper) "/var/lib/signalbox/spool" }}{{ end -}}
{{- if and .spec.redis $v.redis.existingSecret }}{{ $_ := set $env "SERVICE_REDIS_URL_FILE" "/etc/signalbox/redis/url" }}{{ end -}}
{{- if .spec.public -}}
  {{- $_ := set $env "SERVICE_LISTEN" (printf ":%d" (int .spec.public)) -}}
  {{- range .spec.relays -}}
    {{- $to := index (include "signalbox.table" $.root | fromYaml) . -}}
    {{- $_ := set $env (printf "SERVICE_GATEWAY_%s_ADDR" (upper .)) (printf "%s-%s-http:%d" $full . (int $to.http)) -}}
  {{- end -}}
  {{- with $v.gateway.trustedProxies }}{{ $_ := set $env "SERVICE_GATEWAY_TRUSTED_PROXIES" (join "," .) }}{{ end -}}
  {{- with $v.gateway.allowedHosts }}{{ $_ := set $env "SERVICE_GATEWAY_ALLOWED_HOSTS" (join "," .) }}{{ end -}}
{{- end -}}
{{- if .spec.objects -}}
  {{- $_ := set $env "SERVICE_BLOB_DRIVER" $v.objects.driver -}}
  {{- if eq $v.objects.driver "s3" -}}
    {{- $_ := set $env "SERVICE_BLOB_S3_ENDPOINT" $v.objects.s3.endpoint -}}
    {{- $_ := set $env "SERVICE_BLOB_S3_BUCKET" $v.objects.s3.bucket -}}
    {{- $_ := set $env "SERVICE_BLOB_S3_REGION" $v.objects.s3.region -}}
    {{- $_ := set $env "SERVICE_BLOB_S3_PLAINTEXT" (toString $v.objects.s3.plaintext) -}}
    {{- $_ := set $env "SERVICE_BLOB_S3_PATH_STYLE" (toString $v.objects.s3.pathStyle) -}}
    {{- $_ := set $env "SERVICE_BLOB_S3_SECRET_KEY_FILE" "/etc/signalbox/objects/secret-key" -}}
  {{- else -}}
    {{- $_ := set $env "SERVICE_BLOB_ROOT" "/var/lib/signalbox/objects" -}}
    {{- $_ := set $env "SERVICE_BLOB_SIGNING_KEY_FILE" "/etc/signalbox/secrets/blob-key" -}}
  {{- end -}}
{{- end -}}
{{- range $key, $from := .set.secretFiles }}{{ $_ := set $env (printf "%s_FILE" $key) (printf "/etc/signalbox/files/%s" $key) }}{{ end -}}
{{- range $key, $value := mergeOverwrite $env .set.env }}
- name: {{ $key }}
  value: {{ $value | quote }}
{{- end }}
{{- if and .spec.objects (eq $v.objects.driver "s3") }}
- name: SERVICE_BLOB_S3_ACCESS_KEY
  valueFrom:
    secretKeyRef: {name: {{ $v.objects.s3.existingSecret }}, key: access-key}
{{- end }}
{{ include "signalbox.trustEnv" .root }}
{{- end -}}

{{/* The volumes of a service; each contains only what the service needs. */}}
{{- define "signalbox.volumes" -}}
{{- $v := .root.Values -}}
- name: tls
  secret: {secretName: {{ include "signalbox.tlsSecret" . }}, defaultMode: 0440}
{{- $blobKey := and .spec.objects (eq $v.objects.driver "fs") }}
{{- if or .spec.schema $blobKey }}
- name: secrets
  projected:
    defaultMode: 0440
    sources:
      - secret:
          name: {{ include "signalbox.keysSecret" .root }}
          items:
            {{- if .spec.schema }}
            - {key: audit-key, path: audit-key}
            {{- end }}
            {{- if .spec.keyring }}
            - {key: keyring, path: keyring}
            {{- end }}
            {{- if $blobKey }}
            - {key: blob-key, path: blob-key}
            {{- end }}
      {{- if .spec.schema }}
      - secret:
          name: {{ include "signalbox.databaseSecret" .root }}
          items:
            - {key: {{ .name }}.database-url, path: database-url}
      {{- end }}
{{- end }}
{{- if .spec.agents }}
- name: ca
  secret:
    secretName: {{ include "signalbox.caSecret" .root }}
    defaultMode: 0440
    items:
      - {key: tls.crt, path: ca.pem}
      - {key: tls.key, path: ca-key.pem}
{{- end }}
{{- if and .spec.redis $v.redis.existingSecret }}
- name: redis
  secret:
    secretName: {{ $v.redis.existingSecret }}
    defaultMode: 0440
    items: [{key: {{ $v.redis.key }}, path: url}]
{{- end }}
{{- if and .spec.objects (eq $v.objects.driver "s3") }}
- name: objects
  secret:
    secretName: {{ $v.objects.s3.existingSecret }}
    defaultMode: 0440
    items: [{key: secret-key, path: secret-key}]
{{- else if .spec.objects }}
- name: objects
  persistentVolumeClaim: {claimName: {{ $v.objects.fs.existingClaim }}}
{{- end }}
{{- with .set.secretFiles }}
- name: files
  projected:
    defaultMode: 0440
    sources:
      {{- range $key, $from := . }}
      - secret:
          name: {{ $from.secret }}
          items: [{key: {{ $from.key }}, path: {{ $key }}}]
      {{- end }}
{{- end }}
{{- if .spec.schema }}
- name: audit
  persistentVolumeClaim: {claimName: {{ include "signalbox.auditClaim" . }}}
{{- end }}
{{ include "signalbox.trustVolume" .root }}
- name: tmp
  emptyDir: {}
{{- end -}}

{{- define "signalbox.mounts" -}}
{{- $v := .root.Values -}}
- {name: tls, mountPath: /etc/signalbox/tls, readOnly: true}
{{- if or .spec.schema (and .spec.objects (eq $v.objects.driver "fs")) }}
- {name: secrets, mountPath: /etc/signalbox/secrets, readOnly: true}
{{- end }}
{{- if .spec.agents }}
- {name: ca, mountPath: /etc/signalbox/ca, readOnly: true}
{{- end }}
{{- if and .spec.redis $v.redis.existingSecret }}
- {name: redis, mountPath: /etc/signalbox/redis, readOnly: true}
{{- end }}
{{- if and .spec.objects (eq $v.objects.driver "s3") }}
- {name: objects, mountPath: /etc/signalbox/objects, readOnly: true}
{{- else if .spec.objects }}
- {name: objects, mountPath: /var/lib/signalbox/objects}
{{- end }}
{{- if .set.secretFiles }}
- {name: files, mountPath: /etc/signalbox/files, readOnly: true}
{{- end }}
{{- if .spec.schema }}
- {name: audit, mountPath: /var/lib/signalbox/audit}
{{- end }}
{{- if .spec.spool }}
- {name: spool, mountPath: /var/lib/signalbox/spool}
{{- end }}
{{ include "signalbox.trustMount" .root }}
- {name: tmp, mountPath: /tmp}
{{- end -}}

{{/* The pod template of a service. */}}
{{- define "signalbox.pod" -}}
{{- $selector := include "signalbox.selector" (dict "root" .root "part" .name) -}}
metadata:
  labels:
    {{- include "signalbox.labels" (dict "root" .root "part" .name) | nindent 4 }}
    {{- with .set.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    kubectl.kubernetes.io/default-container: {{ .name }}
    # Values that decide what is in the Secrets, which the pods read only when they start.
    checksum/secrets: {{ list .root.Values.postgres .root.Values.secrets.revision | toJson | sha256sum | trunc 16 | quote }}
    {{- with .set.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "signalbox.fullname" .root }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  securityContext:
    {{- include "signalbox.podSecurity" .root | nindent 4 }}
  {{- with .root.Values.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .set.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  terminationGracePeriodSeconds: {{ add (int .set.drainDelaySeconds) (int .set.stopGraceSeconds) 15 }}
  containers:
    - name: {{ .name }}
      image: {{ include "signalbox.image" (dict "root" .root "program" .spec.program) }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      env:
        {{- include "signalbox.env" . | trim | nindent 8 }}
      ports:
        - {name: admin, containerPort: 7100}
        {{- range $port := list "grpc" "http" "agents" "public" }}
        {{- with index $.spec $port }}
        - {name: {{ $port }}, containerPort: {{ . }}}
        {{- end }}
        {{- end }}
      # A process in maintenance responds to the first two probes, so that it is not killed while it waits.
      startupProbe:
        httpGet: {path: /healthz, port: admin}
        periodSeconds: 5
        failureThreshold: 120
      livenessProbe:
        httpGet: {path: /healthz, port: admin}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /readyz, port: admin}
        periodSeconds: 5
        timeoutSeconds: 3
        failureThreshold: 2
      resources:
        {{- toYaml .set.resources | nindent 8 }}
      securityContext:
        {{- include "signalbox.containerSecurity" .root | nindent 8 }}
      volumeMounts:
        {{- include "signalbox.mounts" . | nindent 8 }}
  volumes:
    {{- include "signalbox.volumes" . | nindent 4 }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: {{ .set.topologyKey }}
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- $selector | nindent 10 }}
  {{- with .set.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .set.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .set.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* The metadata of the pod of a job. It needs what the defaults give to all pods. (dict "root" $ "part" "setup") */}}
{{- define "signalbox.jobMetadata" -}}
labels:
  {{- include "signalbox.labels" . | nindent 2 }}
  {{- with .root.Values.defaults.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .root.Values.defaults.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The nodes and the priority of the pod of a job, from the defaults. Of the affinity only that to nodes: a job that had to run
beside a pod of a service, or on a node without one, might never start. */}}
{{- define "signalbox.jobPlacement" -}}
{{- $defaults := .Values.defaults -}}
{{- with $defaults.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $defaults.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with dig "affinity" "nodeAffinity" dict $defaults }}
affinity:
  nodeAffinity:
    {{- toYaml . | nindent 4 }}
{{- end }}
{{- with $defaults.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
