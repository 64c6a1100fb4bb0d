{{/* Values that the schema cannot check, because they depend on each other. */}}
{{- define "signalbox.check" -}}
{{- $v := .Values -}}
{{- $table := include "signalbox.table" . | fromYaml -}}
{{- if eq $v.objects.driver "s3" -}}
  {{- if not (and $v.objects.s3.endpoint $v.objects.s3.bucket $v.objects.s3.existingSecret) -}}
    {{- fail "objects.s3 needs endpoint, bucket and existingSecret (a Secret with the keys access-key and secret-key); or set objects.driver to fs and objects.fs.existingClaim" -}}
  {{- end -}}
{{- else if not $v.objects.fs.existingClaim -}}
  {{- fail "objects.fs.existingClaim must name a claim that all nodes can mount, because objects.driver is fs" -}}
{{- end -}}
{{- if and (not $v.secrets.database) (not $v.postgres.adminSecret.name) -}}
  {{- fail "set postgres.adminSecret.name to a Secret with the URL of a role that may create databases and roles, or secrets.database to a Secret with the URLs of all services" -}}
{{- end -}}
{{- if and $v.secrets.keys (not $v.secrets.database) -}}
  {{- fail "secrets.database must be set too if secrets.keys is set: the passwords of the database are derived from a generated key" -}}
{{- end -}}
{{- range $name, $spec := $table -}}
  {{- $set := include "signalbox.settings" (dict "root" $ "name" $name) | fromYaml -}}
  {{- if ne (empty (index $v.secrets.tls $name)) (empty $v.secrets.ca) -}}
    {{- fail (printf "secrets.ca and secrets.tls.%s must be set together: certificates are either all generated or all yours" $name) -}}
  {{- end -}}
  {{- $many := or (gt (int $set.replicas) 1) $set.autoscaling.enabled -}}
  {{- if and $spec.schema $many (ne $v.audit.accessMode "ReadWriteMany") -}}
    {{- fail (printf "services.%s has more than one replica, and they share the audit folder: set audit.accessMode to ReadWriteMany, or its replicas to 1 without autoscaling" $name) -}}
  {{- end -}}
  {{- if and $set.autoscaling.enabled (gt (int $set.autoscaling.minReplicas) (int $set.autoscaling.maxReplicas)) -}}
    {{- fail (printf "services.%s.autoscaling.minReplicas must not exceed maxReplicas" $name) -}}
  {{- end -}}
{{- end -}}
{{- $relay := int (include "signalbox.settings" (dict "root" $ "name" "gateway") | fromYaml).stopGraceSeconds -}}
{{- range $name := $table.gateway.relays -}}
  {{- if lt $relay (int (include "signalbox.settings" (dict "root" $ "name" $name) | fromYaml).stopGraceSeconds) -}}
    {{- fail (printf "services.gateway.stopGraceSeconds must be at least that of services.%s, whose requests the gateway relays" $name) -}}
  {{- end -}}
{{- end -}}
{{- if and $v.gatewayApi.enabled (empty $v.gatewayApi.parentRefs) -}}
  {{- fail "gatewayApi.parentRefs must name the Gateway that serves the host of publicUrl" -}}
{{- end -}}
{{- if and $v.caBundle.configMap $v.caBundle.secret -}}
  {{- fail "caBundle.configMap and caBundle.secret must not be set together" -}}
{{- end -}}
{{- if and (ne $v.agents.service.type "ClusterIP") (not $v.agents.address) -}}
  {{- fail "agents.address must be set to the host:port that agents dial, because agents.service.type makes the port reachable from outside of the cluster" -}}
{{- end -}}
{{- if and $v.restored.run (eq $v.audit.accessMode "ReadWriteOncePod") (not $v.restored.stopped) -}}
  {{- fail "the job of restored.run mounts the audit folders, and audit.accessMode ReadWriteOncePod lets only one pod mount each: scale all services to 0 first (kubectl scale --replicas=0), and set restored.stopped" -}}
{{- end -}}
{{- if $v.networkPolicy.enabled -}}{{- include "signalbox.checkPorts" . -}}{{- end -}}
{{- end -}}

{{/* The ports of the policies must be those that the settings name. */}}
{{- define "signalbox.checkPorts" -}}
{{- $v := .Values -}}
{{- $policy := $v.networkPolicy -}}
{{- if eq $v.objects.driver "s3" -}}
  {{- $port := default (ternary "80" "443" $v.objects.s3.plaintext) (regexFind ":[0-9]+$" $v.objects.s3.endpoint | trimPrefix ":") -}}
  {{- if ne $port (toString (int $policy.objects.port)) -}}
    {{- fail (printf "networkPolicy.objects.port must be %s, the port of objects.s3.endpoint" $port) -}}
  {{- end -}}
{{- end -}}
{{- with regexFind ":[0-9]+$" (urlParse (default "" $v.otlpEndpoint)).host | trimPrefix ":" -}}
  {{- if ne . (toString (int $policy.traces.port)) -}}
    {{- fail (printf "networkPolicy.traces.port must be %s, the port of otlpEndpoint" .) -}}
  {{- end -}}
{{- end -}}
{{- range $name := list "apiServer" "engines" -}}
  {{- $to := index $policy $name -}}
  {{- if lt (int $to.endPort) (int $to.port) -}}
    {{- fail (printf "networkPolicy.%s.endPort must be at least networkPolicy.%s.port" $name $name) -}}
  {{- end -}}
{{- end -}}
{{- end -}}
