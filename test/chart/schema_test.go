package chart

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chartutil"
	"sigs.k8s.io/json"
)

// with returns the set minimal with further values.
func with(t *testing.T, text string) map[string]any {
	t.Helper()
	return chartutil.MergeTables(parse(t, text), readSet(t, "minimal"))
}

func TestRefusedValues(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ values, want string }{
		"a misspelt name":                  {`replicaCount: 2`, "additional properties 'replicaCount' not allowed"},
		"a misspelt name of a service":     {`services: {gateways: {replicas: 2}}`, "additional properties 'gateways' not allowed"},
		"a misspelt setting of a service":  {`services: {auth: {replica: 2}}`, "additional properties 'replica' not allowed"},
		"a misspelt policy":                {`networkPolicy: {postgress: {}}`, "additional properties 'postgress' not allowed"},
		"a text for a number":              {`services: {auth: {replicas: "2"}}`, "got string, want integer"},
		"no replica":                       {`defaults: {replicas: 0}`, "minimum: got 0, want 1"},
		"the tag latest":                   {`image: {tag: latest}`, "image/tag"},
		"a digest of another kind":         {`image: {digests: {authd: "md5:1"}}`, "does not match pattern"},
		"a URL without a scheme":           {`publicUrl: signalbox.example.com`, "does not match pattern"},
		"a URL with a slash at its end":    {`publicUrl: https://signalbox.example.com/`, "does not match pattern"},
		"a secret as a variable":           {`services: {auth: {env: {SERVICE_KEYRING: "1 abc"}}}`, "invalid propertyName 'SERVICE_KEYRING'"},
		"a label that selects pods":        {`services: {auth: {podLabels: {app.kubernetes.io/component: jobs}}}`, "invalid propertyName 'app.kubernetes.io/component'"},
		"no limit of memory":               {`defaults: {resources: {limits: {memory: null}}}`, "memory"},
		"an access mode":                   {`audit: {accessMode: ReadOnlyMany}`, "audit/accessMode"},
		"an unknown driver":                {`objects: {driver: gcs}`, "objects/driver"},
		"replicas without a shared folder": {`audit: {accessMode: ReadWriteOnce}`, "set audit.accessMode to ReadWriteMany"},
		"an autoscaler without a shared folder": {
			`{audit: {accessMode: ReadWriteOnce}, defaults: {replicas: 1}, services: {jobs: {autoscaling: {enabled: true}}}}`,
			"services.jobs has more than one replica",
		},
		"no registry":                      {`image: {registry: ""}`, "image.registry must be set"},
		"no URL":                           {`publicUrl: ""`, "publicUrl must be set"},
		"no database":                      {`postgres: {adminSecret: {name: ""}}`, "set postgres.adminSecret.name"},
		"keys without a database":          {`secrets: {keys: own}`, "secrets.database must be set too"},
		"some certificates":                {`secrets: {tls: {auth: own}}`, "must be set together"},
		"no bucket":                        {`objects: {s3: {bucket: ""}}`, "objects.s3 needs endpoint, bucket and existingSecret"},
		"no claim":                         {`objects: {driver: fs}`, "objects.fs.existingClaim must name a claim"},
		"a gateway that stops too soon":    {`services: {gateway: {stopGraceSeconds: 10}}`, "services.gateway.stopGraceSeconds must be at least"},
		"another port of the object store": {`objects: {s3: {endpoint: "minio:9000"}}`, "networkPolicy.objects.port must be 9000"},
		"the port of plain HTTP":           {`objects: {s3: {endpoint: minio, plaintext: true}}`, "networkPolicy.objects.port must be 80"},
		"another port of the collector":    {`otlpEndpoint: "http://collector:14317"`, "networkPolicy.traces.port must be 14317"},
		"a range of ports":                 {`networkPolicy: {apiServer: {port: 8443}}`, "networkPolicy.apiServer.endPort must be at least"},
		"a range of pods":                  {`networkPolicy: {podCidrs: [10.244.0.0]}`, "does not match pattern"},
		"no port of DNS":                   {`networkPolicy: {dns: {ports: []}}`, "minItems: got 0, want 1"},
		"two bundles of CAs":               {`caBundle: {configMap: a, secret: b}`, "must not be set together"},
		"no address for agents":            {`agents: {service: {type: LoadBalancer}}`, "agents.address must be set"},
		"a volume of a running pod": {
			`{audit: {accessMode: ReadWriteOncePod}, defaults: {replicas: 1}, restored: {run: true}}`, "scale all services to 0 first",
		},
		"no Gateway":              {`gatewayApi: {enabled: true}`, "gatewayApi.parentRefs must name"},
		"bounds of an autoscaler": {`services: {jobs: {autoscaling: {enabled: true, minReplicas: 9}}}`, "minReplicas must not exceed maxReplicas"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := manifests(t, with(t, c.values))
			require.ErrorContains(t, err, c.want)
		})
	}
}

// A value of a service replaces the default also if it is false, zero or empty.
func TestServiceReplacesDefaults(t *testing.T) {
	t.Parallel()
	r := render(t, with(t, `
defaults: {autoscaling: {enabled: true}, drainDelaySeconds: 20, priorityClassName: high, podLabels: {a: b}}
services: {auth: {autoscaling: {enabled: false}, replicas: 5, drainDelaySeconds: 0, priorityClassName: "", podLabels: {a: c}}}`))
	for _, w := range workloads(r) {
		if !w.serves {
			continue
		}
		env, class := environment(w.pod.Spec.Containers[0]), w.pod.Spec.PriorityClassName
		if w.component() == "auth" {
			require.Equal(t, []string{"0s", "", "c"}, []string{env["SERVICE_DRAIN_DELAY"], class, w.pod.Labels["a"]})
		} else {
			require.Equal(t, []string{"20s", "high", "b"}, []string{env["SERVICE_DRAIN_DELAY"], class, w.pod.Labels["a"]})
		}
	}
	for _, o := range r.objects {
		require.False(t, o.kind == "HorizontalPodAutoscaler" && o.name == "prod-signalbox-auth")
	}
}

// property is a part of values.schema.json.
type property struct {
	Type        any                  `json:"type"`
	Description string               `json:"description"`
	Ref         string               `json:"$ref"`
	Enum        []any                `json:"enum"`
	Additional  any                  `json:"additionalProperties"`
	Properties  map[string]*property `json:"properties"`
	Names       *struct {
		Not struct {
			Enum []string `json:"enum"`
		} `json:"not"`
	} `json:"propertyNames"`
}

func readSchema(t *testing.T) *property {
	t.Helper()
	var root property
	require.NoError(t, json.UnmarshalCaseSensitivePreserveInts([]byte(readTop(t, "deploy/helm/signalbox/values.schema.json")), &root))
	return &root
}

// Every name in the schema is described, and every object with fixed names refuses others.
func TestSchemaIsComplete(t *testing.T) {
	t.Parallel()
	var check func(path string, p *property)
	check = func(path string, p *property) {
		if p.Ref != "" {
			return
		}
		require.NotEmpty(t, p.Description, "%s has no description", path)
		if len(p.Properties) > 0 {
			require.Equal(t, false, p.Additional, "%s accepts other names", path)
		}
		for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
			if !strings.HasSuffix(path, ".resources") { // which Kubernetes describes
				check(path+"."+name, p.Properties[name])
			}
		}
	}
	check("", readSchema(t))
}

// The schema refuses each secret setting as a variable.
func TestSchemaKnowsSecrets(t *testing.T) {
	t.Parallel()
	refused := readSchema(t).Properties["defaults"].Properties["env"].Names.Not.Enum
	require.Equal(t, secretSettings(t), refused)
}
