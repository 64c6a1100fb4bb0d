{{- define "signalbox.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/* The labels that select the pods of the release, or those of one part of it. (dict "root" $ "part" "auth") */}}
{{- define "signalbox.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with get . "part" }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{/* The version of the images: the one that `make images` packs into the chart, unless image.tag is set. */}}
{{- define "signalbox.version" -}}
{{- default .Chart.AppVersion .Values.image.tag -}}
{{- end -}}

{{- define "signalbox.labels" -}}
{{ include "signalbox.selector" . }}
{{- with include "signalbox.version" .root }}
app.kubernetes.io/version: {{ . | trunc 63 | quote }}
{{- end }}
app.kubernetes.io/part-of: signalbox
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The metadata of an object. (dict "root" $ "part" "auth" "name" "auth" "labels" (dict) "annotations" (dict)) */}}
{{- define "signalbox.metadata" -}}
name: {{ printf "%s-%s" (include "signalbox.fullname" .root) .name | trimSuffix "-" }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "signalbox.labels" . | nindent 2 }}
  {{- with get . "labels" }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- $annotations := merge (dict) (default (dict) (get . "annotations")) .root.Values.commonAnnotations }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The constant table of the services, as YAML. Every service has every key. */}}
{{- define "signalbox.table" -}}
{{- range $name, $spec := .Files.Get "files/services.yaml" | fromYaml }}
{{ $name }}: {{ merge $spec (dict "schema" false "grpc" 0 "http" 0 "agents" 0 "public" 0 "calls" list "relays" list "keyring" false "objects" false "redis" false "engines" false "provider" false "spool" false) | toJson }}
{{- end }}
{{- end -}}

{{/* The settings of a service: those of services.NAME over the defaults. (dict "root" $ "name" "auth") */}}
{{- define "signalbox.settings" -}}
{{ mergeOverwrite (deepCopy .root.Values.defaults) (deepCopy (default (dict) (index .root.Values.services .name))) | toYaml }}
{{- end -}}

{{/* The image of a program. (dict "root" $ "program" "authd") */}}
{{- define "signalbox.image" -}}
{{- $registry := required "image.registry must be set to the registry and folder of the images, such as registry.example.com/signalbox" .root.Values.image.registry -}}
{{- with index .root.Values.image.digests .program -}}
{{- printf "%s/%s@%s" $registry $.program . -}}
{{- else -}}
{{- printf "%s/%s:%s" $registry .program (required "image.tag must be set to the version of the images, which make images prints, because this chart was not packed by make images" (include "signalbox.version" .root)) -}}
{{- end -}}
{{- end -}}

{{- define "signalbox.publicUrl" -}}
{{- required "publicUrl must be set to the URL that browsers and jobs use, such as https://signalbox.example.com" .Values.publicUrl -}}
{{- end -}}

{{- define "signalbox.host" -}}
{{- regexReplaceAll ":[0-9]+$" (urlParse (include "signalbox.publicUrl" .)).host "" -}}
{{- end -}}

{{/* The names of the Secrets. */}}
{{- define "signalbox.keysSecret" -}}{{ default (printf "%s-keys" (include "signalbox.fullname" .)) .Values.secrets.keys }}{{- end -}}
{{- define "signalbox.databaseSecret" -}}{{ default (printf "%s-database" (include "signalbox.fullname" .)) .Values.secrets.database }}{{- end -}}
{{- define "signalbox.caSecret" -}}{{ default (printf "%s-ca" (include "signalbox.fullname" .)) .Values.secrets.ca }}{{- end -}}
{{- define "signalbox.tlsSecret" -}}
{{ default (printf "%s-tls-%s" (include "signalbox.fullname" .root) .name) (index .root.Values.secrets.tls .name) }}
{{- end -}}

{{/* The claim of the audit folder of a service. (dict "root" $ "name" "auth") */}}
{{- define "signalbox.auditClaim" -}}
{{ default (printf "%s-audit-%s" (include "signalbox.fullname" .root) .name) (index .root.Values.audit.existingClaims .name) }}
{{- end -}}

{{/* What every pod and every container has: restricted Pod Security. */}}
{{- define "signalbox.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
{{- with .Values.volumes.supplementalGroups }}
supplementalGroups: {{ toJson . }}
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "signalbox.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* The SERVICE_PEERS of all processes. */}}
{{- define "signalbox.peers" -}}
{{- $full := include "signalbox.fullname" . -}}
{{- $peers := list -}}
{{- range $name, $spec := include "signalbox.table" . | fromYaml -}}
{{- if $spec.grpc -}}{{- $peers = append $peers (printf "%s=%s-%s:%d" $name $full $name (int $spec.grpc)) -}}{{- end -}}
{{- end -}}
{{- join "," $peers -}}
{{- end -}}

{{/* The CAs of the installation. The programs read the file of SSL_CERT_FILE besides /etc/ssl/certs of their image. */}}
{{- define "signalbox.trustEnv" -}}
{{- if or .Values.caBundle.configMap .Values.caBundle.secret -}}
- {name: SSL_CERT_FILE, value: /etc/signalbox/trust/ca.crt}
{{- end -}}
{{- end -}}

{{- define "signalbox.trustMount" -}}
{{- if or .Values.caBundle.configMap .Values.caBundle.secret -}}
- {name: trust, mountPath: /etc/signalbox/trust, readOnly: true}
{{- end -}}
{{- end -}}

{{- define "signalbox.trustVolume" -}}
{{- $items := list (dict "key" .Values.caBundle.key "path" "ca.crt") | toJson -}}
{{- if .Values.caBundle.configMap -}}
- name: trust
  configMap: {name: {{ .Values.caBundle.configMap }}, items: {{ $items }}}
{{- else if .Values.caBundle.secret -}}
- name: trust
  secret: {secretName: {{ .Values.caBundle.secret }}, defaultMode: 0440, items: {{ $items }}}
{{- end -}}
{{- end -}}
