package chart

import (
	"context"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// trusts requires that a container that gets CAs reads them from the file that is mounted.
func trusts(w workload, c *corev1.Container) (faults []string) {
	file := environment(*c)["SSL_CERT_FILE"]
	mounted := ""
	for _, m := range c.VolumeMounts {
		for _, v := range w.pod.Spec.Volumes {
			switch {
			case m.Name != "trust" || v.Name != m.Name:
			case v.ConfigMap != nil:
				mounted = path.Join(m.MountPath, v.ConfigMap.Items[0].Path)
			case v.Secret != nil:
				mounted = path.Join(m.MountPath, v.Secret.Items[0].Path)
			}
		}
	}
	if file != mounted {
		faults = append(faults, "SSL_CERT_FILE is \""+file+"\", but the file of the CAs is \""+mounted+"\"")
	}
	return faults
}

func TestCABundle(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"configMap", "secret"} {
		r := render(t, with(t, `{caBundle: {`+kind+`: own, key: all.pem}, restored: {run: true}}`))
		for _, check := range rules(t) {
			require.Empty(t, check(r))
		}
		for _, w := range workloads(r) {
			require.Equal(t, "/etc/signalbox/trust/ca.crt", environment(w.pod.Spec.Containers[0])["SSL_CERT_FILE"], w.name)
			for _, v := range w.pod.Spec.Volumes {
				if v.Name != "trust" {
					continue
				}
				if kind == "secret" {
					require.Equal(t, corev1.KeyToPath{Key: "all.pem", Path: "ca.crt"}, v.Secret.Items[0])
				} else {
					require.Equal(t, corev1.KeyToPath{Key: "all.pem", Path: "ca.crt"}, v.ConfigMap.Items[0])
				}
			}
		}
	}
}

func TestDNSPorts(t *testing.T) {
	t.Parallel()
	r := render(t, readSet(t, "private"))
	for _, w := range workloads(r) {
		found := map[string]bool{}
		for _, p := range policies(r, w.pod.Labels) {
			for _, e := range p.Spec.Egress {
				for _, port := range e.Ports {
					if len(e.To) == 2 && e.To[1].IPBlock != nil && e.To[1].IPBlock.CIDR == "169.254.20.10/32" {
						found[string(*port.Protocol)+port.Port.String()] = true
					}
				}
			}
		}
		require.Equal(t, map[string]bool{"UDP53": true, "TCP53": true, "UDP5353": true, "TCP5353": true}, found, w.name)
	}
}

func TestPodCIDRs(t *testing.T) {
	t.Parallel()
	found := 0
	for _, p := range all[networkingv1.NetworkPolicy](render(t, readSet(t, "private"))) {
		for _, e := range p.Spec.Egress {
			for _, to := range e.To {
				switch {
				case to.IPBlock == nil:
				case to.IPBlock.CIDR == "0.0.0.0/0":
					found++
					require.Equal(t, []string{"10.244.0.0/16"}, to.IPBlock.Except)
				case to.IPBlock.CIDR == "::/0":
					require.Equal(t, []string{"fd00:10:244::/56"}, to.IPBlock.Except)
				}
			}
		}
	}
	require.Positive(t, found)
}

// Another database or revision replaces the pods, which read Secrets only when they start.
func TestChangedSecretsReplacePods(t *testing.T) {
	t.Parallel()
	pods := func(values string) (out []corev1.PodTemplateSpec) {
		for _, w := range workloads(render(t, with(t, values))) {
			if w.serves {
				out = append(out, w.pod)
			}
		}
		require.Len(t, out, 6)
		return out
	}
	before := pods(`{}`)
	require.Equal(t, before, pods(`{}`))
	for _, values := range []string{`secrets: {revision: "2"}`, `postgres: {database: other}`, `postgres: {adminSecret: {name: other}}`} {
		for i, after := range pods(values) {
			require.NotEqual(t, before[i], after, values)
		}
	}
}

func TestSupplementalGroups(t *testing.T) {
	t.Parallel()
	for _, w := range workloads(render(t, with(t, `{volumes: {supplementalGroups: [5000]}, restored: {run: true}}`))) {
		require.Equal(t, []int64{5000}, w.pod.Spec.SecurityContext.SupplementalGroups, w.name)
	}
}

// live is a cluster whose workloads all have a number of replicas.
type live struct {
	dynamic.NamespaceableResourceInterface

	replicas int64
}

func (l live) GetClientFor(string, string) (dynamic.NamespaceableResourceInterface, bool, error) {
	return l, true, nil
}

func (l live) Namespace(string) dynamic.ResourceInterface { return l }

func (l live) Get(context.Context, string, metav1.GetOptions, ...string) (*unstructured.Unstructured, error) {
	return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": l.replicas}}}, nil
}

// replicas returns the number of replicas of inference in the set autoscaling.
func replicas(t *testing.T, with func(*chart.Chart, chartutil.Values) (map[string]string, error)) int32 {
	t.Helper()
	docs, _, err := manifestsOf(t, load(t), readSet(t, "autoscaling"), with)
	require.NoError(t, err)
	objects, err := decodeAll(docs)
	require.NoError(t, err)
	found := all[appsv1.StatefulSet](rendered{objects: objects})
	require.Len(t, found, 1)
	require.NotNil(t, found[0].Spec.Replicas, "without a number, Kubernetes sets it to 1")
	return *found[0].Spec.Replicas
}

// The number of replicas is the smallest one at first, and then what the autoscaler has set.
func TestReplicasOfAutoscaler(t *testing.T) {
	t.Parallel()
	require.EqualValues(t, 3, replicas(t, engine.Engine{Strict: true}.Render))
	for now, want := range map[int64]int32{9: 9, 3: 3, 1: 3, 0: 3} {
		require.Equal(t, want, replicas(t, func(c *chart.Chart, values chartutil.Values) (map[string]string, error) {
			return engine.RenderWithClientProvider(c, values, live{replicas: now})
		}))
	}
}

// The packed chart uses the images of its version; the chart of the source does not know a version.
func TestPackedChart(t *testing.T) {
	t.Parallel()
	require.Contains(t, readTop(t, "scripts/images.sh"), "\nversion=$(scripts/version.sh)\n")
	require.Contains(t, readTop(t, "scripts/images.sh"), `scripts/chart.sh "$out" "$version"`)
	values := chartutil.MergeTables(map[string]any{"image": map[string]any{"tag": ""}}, readSet(t, "minimal"))
	for version, semantic := range map[string]string{"v9.8.7": "9.8.7", "v9.8.7-3-g0123456789ab-dirty": "9.8.7-3-g0123456789ab-dirty", "dev-0123456789ab": "0.0.0-dev-0123456789ab"} {
		out := t.TempDir()
		text, err := exec.CommandContext(t.Context(), filepath.Join(top, "scripts", "chart.sh"), out, version).CombinedOutput()
		require.NoError(t, err, "%s", text)
		c, err := loader.Load(filepath.Join(out, "signalbox-chart.tgz"))
		require.NoError(t, err)
		require.NoError(t, c.Validate())
		require.Equal(t, semantic, c.Metadata.Version)
		docs, _, err := manifestsOf(t, c, values, engine.Engine{Strict: true}.Render)
		require.NoError(t, err)
		require.Contains(t, strings.Join(docs, ""), "image: registry.example.com/signalbox/authd:"+version+"\n")
	}
	c, err := loader.Load(chartDir)
	require.NoError(t, err)
	_, _, err = manifestsOf(t, c, values, engine.Engine{Strict: true}.Render)
	require.ErrorContains(t, err, "image.tag must be set to the version of the images")
}

// The values in the README work, and agents outside of the cluster reach the port that it names.
func TestExampleOfReadme(t *testing.T) {
	t.Parallel()
	found := regexp.MustCompile("(?s)with this `values.yaml`:\n\n```yaml\n(.*?)```").FindStringSubmatch(readTop(t, readmeFile))
	require.NotNil(t, found)
	file := filepath.Join(t.TempDir(), "values.yaml")
	require.NoError(t, os.WriteFile(file, []byte(found[1]), 0o600))
	values, err := chartutil.ReadValuesFile(file)
	require.NoError(t, err)
	r := render(t, values)
	for of, check := range rules(t) {
		require.Empty(t, check(r), of)
	}
	require.NotContains(t, r.notes, "cannot connect yet")
	for _, s := range all[corev1.Service](r) {
		if s.Name == "prod-signalbox-agents" {
			require.Equal(t, corev1.ServiceTypeLoadBalancer, s.Spec.Type)
			require.EqualValues(t, 7112, s.Spec.Ports[0].Port)
		}
	}
	for _, w := range workloads(r) {
		if w.component() == "jobs" {
			require.Equal(t, "agents.example.com:7112", environment(w.pod.Spec.Containers[0])["SERVICE_JOBS_AGENT_ADDRESS"])
		}
	}
	require.Contains(t, render(t, readSet(t, "minimal")).notes, "Agents outside of the cluster cannot connect yet: make the port 7112")
}
