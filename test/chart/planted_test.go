package chart

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// plant is a fault in the text of the objects that the set monitoring renders, with the defaults of the set placement.
type plant struct {
	// in is the beginning of the name of the object, after its kind.
	kind, name string
	// old is a regular expression, whose first match is replaced. If it is empty, the object is removed.
	old, by string
	// found is a part of what the test reports.
	found string
}

func TestPlantedFaults(t *testing.T) {
	t.Parallel()
	values := readSet(t, "monitoring")
	values["defaults"] = readSet(t, "placement")["defaults"]
	docs, _, err := manifests(t, values)
	require.NoError(t, err)
	checks := rules(t)
	for name, p := range map[string]plant{
		"a misspelt field":              {"Deployment", "auth", `readinessProbe:`, `readynessProbe:`, `unknown field "spec.template.spec.containers[0].readynessProbe"`},
		"a field in the wrong case":     {"StatefulSet", "inference", `serviceName:`, `servicename:`, `unknown field "spec.servicename"`},
		"a field of another kind":       {"NetworkPolicy", "jobs", `policyTypes:`, `policyType:`, `unknown field "spec.policyType"`},
		"a misspelt field of a CRD":     {"PodMonitor", "", `podMetricsEndpoints:`, `podMetricEndpoints:`, `unknown field "spec.podMetricEndpoints"`},
		"a field that occurs twice":     {"Service", "auth", `clusterIP: None`, "clusterIP: None\n  clusterIP: None", `already set in map`},
		"a missing probe":               {"Deployment", "gateway", `(?s)livenessProbe:.*?readinessProbe`, `readinessProbe`, "has no liveness probe"},
		"a probe of the wrong path":     {"Deployment", "jobs", `/readyz`, `/healthz`, "the readiness probe reads /healthz"},
		"a missing policy":              {"NetworkPolicy", "registry", ``, ``, "inference calls registry (grpc), but the policies do not permit it"},
		"a pod without its policy":      {"Job", "migrate-auth", `(?s)(template:.*?component: )migrate`, "template:\n    metadata:\n      labels:\n        app.kubernetes.io/name: signalbox\n        app.kubernetes.io/instance: prod\n        app.kubernetes.io/component: migrat", "may call the ports"},
		"a policy for too many":         {"NetworkPolicy", "auth", `(?s)from:\n +- podSelector:\n +matchLabels:.*?component: \w+`, "from:\n        - podSelector: {}", "the policies permit"},
		"a port that is not called":     {"NetworkPolicy", "ingest", `port: 7123`, `port: 7100`, "gateway calls ingest (http)"},
		"a wider range outside":         {"NetworkPolicy", "registry", `port: 5432`, `port: 22`, "may call the ports"},
		"no limit of memory":            {"Deployment", "ingest", `limits:\n +memory: 1Gi\n`, "\n", "has no limit of memory"},
		"a root file system":            {"Deployment", "auth", `readOnlyRootFilesystem: true`, `readOnlyRootFilesystem: false`, "can write to its root file system"},
		"a token of the API server":     {"Deployment", "auth", `automountServiceAccountToken: false`, `automountServiceAccountToken: true`, "has a token"},
		"the tag latest":                {"Deployment", "auth", `authd:0.1.0`, `authd:latest`, "has no version"},
		"a secret in an argument":       {"Job", "migrate-auth", `args: \[migrate\]`, `args: [migrate, "postgres://owner:hunter2@db/signalbox"]`, "an argument contains what looks like a secret"},
		"a secret in a variable":        {"Deployment", "auth", `name: SERVICE_KEYRING_FILE`, `name: SERVICE_KEYRING`, "SERVICE_KEYRING is a secret"},
		"a secret in a ConfigMap":       {"ConfigMap", "dashboard-serving", `"tags": \[`, `"password": "hunter2hunter2", "tags": [`, "ConfigMap prod-signalbox-dashboard-serving"},
		"a URL with a password":         {"ConfigMap", "dashboard-serving", `"uid": "signalbox-serving"`, `"uid": "postgres://a:b@db/x"`, "ConfigMap prod-signalbox-dashboard-serving"},
		"a Secret that does not exist":  {"Deployment", "auth", `secretName: prod-signalbox-tls-auth`, `secretName: prod-signalbox-tls-auht`, "which neither the values nor the setup job provide"},
		"the certificate of another":    {"Deployment", "auth", `secretName: prod-signalbox-tls-auth`, `secretName: prod-signalbox-tls-jobs`, "gets the certificate of another service"},
		"the URL of the schema's owner": {"Deployment", "auth", `key: auth.database-url`, `key: auth.database-owner-url`, "gets auth.database-owner-url"},
		"the key of the CA":             {"Deployment", "ingest", `items: \[{key: secret-key`, `items: [{key: tls.key`, "gets the key of the CA"},
		"an early kill":                 {"StatefulSet", "inference", `terminationGracePeriodSeconds: 625`, `terminationGracePeriodSeconds: 30`, "is killed before it can stop"},
		"a setting that does not exist": {"Deployment", "jobs", `name: SERVICE_JOBS_CA_DIR`, `name: SERVICE_JOBS_CA_FOLDER`, "SERVICE_JOBS_CA_FOLDER is not in"},
		"a metric that does not exist":  {"PrometheusRule", "", `traffic_dropped_total`, `traffic_lost_total`, "the metric traffic_lost_total does not exist"},
		"a metric of a dashboard":       {"ConfigMap", "dashboard-training", `jobs_slurm_held`, `jobs_slurm_waiting`, "the metric jobs_slurm_waiting does not exist"},
		"a runbook that does not exist": {"PrometheusRule", "", `operating/#the-database`, `operating/#databases`, "there is no page or heading"},
		"a policy without a hook":       {"NetworkPolicy", "migrate-job", `helm.sh/hook: .*`, `example.com/a: b`, "migrate-auth runs before a policy with its rules"},
		"a policy that comes too late":  {"NetworkPolicy", "setup-job", `helm.sh/hook-weight: "-30"`, `helm.sh/hook-weight: "-10"`, "setup runs before a policy with its rules"},
		"a job that waits for pods":     {"Job", "migrate-auth", `helm.sh/hook: .*`, `helm.sh/hook: post-upgrade`, "runs only after the pods are ready"},
		"a job for other nodes":         {"Job", "setup", `nodeSelector:\n +kubernetes.io/arch: .*`, ``, "Job prod-signalbox-setup: the nodeSelector is not that of defaults"},
		"a job that a taint stops":      {"Job", "migrate-auth", `key: control-plane`, `key: other`, "Job prod-signalbox-migrate-auth: the tolerations are not those of defaults"},
		"a job beside pods":             {"Job", "migrate-auth", `nodeAffinity:`, "podAffinity: {}\n        nodeAffinity:", "the nodeAffinity is not that of defaults, or there is another affinity"},
		"a CronJob of another priority": {"CronJob", "certs", `priorityClassName: .*`, ``, "CronJob prod-signalbox-certs: the priorityClassName is not that of defaults"},
		"a job without the labels":      {"Job", "migrate-jobs", `cost: control-plane`, ``, "Job prod-signalbox-migrate-jobs: the podLabels of defaults are missing"},
		"a CronJob without annotations": {"CronJob", "certs", `example.com/scrape: .*`, `example.com/other: a`, "CronJob prod-signalbox-certs: the podAnnotations of defaults are missing"},
		"an address that is a pod":      {"NetworkPolicy", "jobs", `(?s)from:\n +- podSelector:\n +matchLabels:.*?component: \w+`, "from:\n        - ipBlock: {cidr: 10.0.0.0/8}", "by its address, inference can call jobs (grpc)"},
		"a Service of all pods":         {"Service", "auth", `clusterIP: None`, "clusterIP: None\n  publishNotReadyAddresses: true", "also call pods that are not ready"},
		"a missing budget":              {"PodDisruptionBudget", "jobs", ``, ``, "prod-signalbox-jobs has no disruption budget"},
		"a Service without pods":        {"Service", "auth", `targetPort: grpc`, `targetPort: rpc`, "no pod has the port rpc"},
		"another port":                  {"Deployment", "auth", `containerPort: 7101`, `containerPort: 7201`, "the port of auth grpc is 7201"},
		"an open secret":                {"Deployment", "auth", `secretName: prod-signalbox-tls-auth, defaultMode: 0440`, `secretName: prod-signalbox-tls-auth`, "do not have the mode 0440"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed := p.apply(t, docs)
			objects, err := decodeAll(changed)
			if err != nil {
				require.ErrorContains(t, err, p.found)
				return
			}
			var faults []string
			for _, check := range checks {
				faults = append(faults, check(rendered{objects: objects, values: values})...)
			}
			require.NotEmpty(t, faults)
			require.Contains(t, strings.Join(faults, "\n"), p.found)
		})
	}
}

// apply returns the objects with the fault.
func (p plant) apply(t *testing.T, docs []string) (changed []string) {
	t.Helper()
	name := "  name: prod-signalbox"
	if p.name != "" {
		name += "-" + p.name
	}
	hits := 0
	for _, doc := range docs {
		if !strings.Contains(doc, "\nkind: "+p.kind+"\n") || !strings.Contains(doc, name+"\n") {
			changed = append(changed, doc)
			continue
		}
		hits++
		if p.old == "" {
			continue
		}
		at := regexp.MustCompile(p.old).FindStringIndex(doc)
		require.NotNil(t, at, "nothing to replace in:%s", doc)
		changed = append(changed, doc[:at[0]]+p.by+doc[at[1]:])
	}
	require.Equal(t, 1, hits, "the object of the fault")
	return changed
}
