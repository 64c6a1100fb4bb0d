{{/* What the setup job generates: "" if everything is in existing Secrets. */}}
{{- define "signalbox.setupArgs" -}}
{{- $args := list -}}
{{- if not .Values.secrets.keys }}{{ $args = append $args "--keys" }}{{ end -}}
{{- if not .Values.secrets.ca }}{{ $args = append $args "--certs" }}{{ end -}}
{{- if not .Values.secrets.database }}{{ $args = concat $args (list "--admin-url-file" "/etc/signalbox/admin/url" "--name" .Values.postgres.database) }}{{ end -}}
{{- join " " $args -}}
{{- end -}}

{{/* The pod of the setup job. (dict "root" $ "args" (list ..) "database" true) */}}
{{- define "signalbox.setupPod" -}}
metadata:
  {{- include "signalbox.jobMetadata" (dict "root" .root "part" "setup") | nindent 2 }}
spec:
  restartPolicy: Never
  {{- include "signalbox.jobPlacement" .root | nindent 2 }}
  serviceAccountName: {{ include "signalbox.fullname" .root }}-setup
  automountServiceAccountToken: true
  enableServiceLinks: true
  securityContext:
    {{- include "signalbox.podSecurity" .root | nindent 4 }}
  {{- with .root.Values.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: setup
      image: {{ include "signalbox.image" (dict "root" .root "program" "signalbox-setup") }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      args:
        - kubernetes
        - --secrets
        - {{ include "signalbox.fullname" .root }}
        - --dir
        - /work
        {{- range .args }}
        - {{ . | quote }}
        {{- end }}
      {{- with include "signalbox.trustEnv" .root }}
      env:
        {{- . | nindent 8 }}
      {{- end }}
      resources:
        {{- toYaml .root.Values.setup.resources | nindent 8 }}
      securityContext:
        {{- include "signalbox.containerSecurity" .root | nindent 8 }}
      volumeMounts:
        {{- include "signalbox.trustMount" .root | nindent 8 }}
        - {name: work, mountPath: /work}
        {{- if .database }}
        - {name: admin, mountPath: /etc/signalbox/admin, readOnly: true}
        {{- end }}
  volumes:
    {{- include "signalbox.trustVolume" .root | nindent 4 }}
    # Keys pass through memory only.
    - name: work
      emptyDir: {medium: Memory, sizeLimit: 16Mi}
    {{- if .database }}
    - name: admin
      secret:
        secretName: {{ .root.Values.postgres.adminSecret.name }}
        defaultMode: 0440
        items: [{key: {{ .root.Values.postgres.adminSecret.key }}, path: url}]
    {{- end }}
{{- end -}}
