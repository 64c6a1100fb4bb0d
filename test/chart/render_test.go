package chart

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const (
	top       = "../.."
	chartDir  = top + "/deploy/helm/signalbox"
	namespace = "ml"
	notesFile = "NOTES.txt"
)

// object is a rendered object, decoded into the type of its API.
type object struct {
	kind, name string
	labels     map[string]string
	typed      any
}

// rendered is what the chart makes of a set of values.
type rendered struct {
	objects []object
	notes   string
	// values are the values of the set, without the defaults.
	values map[string]any
}

func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.Load(chartDir)
	require.NoError(t, err)
	require.Empty(t, c.Metadata.AppVersion, "the version is that of the images, which make images knows")
	c.Metadata.AppVersion = "0.1.0" // as if packed
	return c
}

// readSet reads a set of values.
func readSet(t *testing.T, name string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "sets", name+".yaml"))
	require.NoError(t, err)
	return parse(t, string(text))
}

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	values := map[string]any{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), &values))
	return values
}

// sets returns the names of all sets of values.
func sets(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/sets/*.yaml")
	require.NoError(t, err)
	names := make([]string, 0, len(files))
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".yaml"))
	}
	return names
}

// manifests renders the chart and returns the text of each object, and the notes. The schema is checked first.
func manifests(t *testing.T, values map[string]any) (docs []string, notes string, err error) {
	t.Helper()
	return manifestsOf(t, load(t), values, engine.Engine{Strict: true}.Render)
}

// manifestsOf is manifests for a chart and a way of rendering.
func manifestsOf(t *testing.T, c *chart.Chart, values map[string]any, with func(*chart.Chart, chartutil.Values) (map[string]string, error)) (docs []string, notes string, err error) {
	t.Helper()
	options := chartutil.ReleaseOptions{Name: "prod", Namespace: namespace, IsInstall: true, Revision: 1}
	given, err := chartutil.ToRenderValues(c, values, options, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, "", err
	}
	files, err := with(c, given)
	if err != nil {
		return nil, "", err
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(file, notesFile) {
			notes = files[file]
			continue
		}
		for doc := range strings.SplitSeq("\n"+files[file], "\n---") {
			if strings.TrimSpace(doc) != "" {
				docs = append(docs, doc)
			}
		}
	}
	return docs, notes, nil
}

// newObject returns a pointer to the type of an API, or nil.
func newObject(apiVersion, kind string) any {
	switch apiVersion + " " + kind {
	case "apps/v1 Deployment":
		return &appsv1.Deployment{}
	case "apps/v1 StatefulSet":
		return &appsv1.StatefulSet{}
	case "autoscaling/v2 HorizontalPodAutoscaler":
		return &autoscalingv2.HorizontalPodAutoscaler{}
	case "batch/v1 Job":
		return &batchv1.Job{}
	case "batch/v1 CronJob":
		return &batchv1.CronJob{}
	case "gateway.networking.k8s.io/v1 HTTPRoute":
		return &gatewayv1.HTTPRoute{}
	case "monitoring.coreos.com/v1 PodMonitor":
		return &monitoringv1.PodMonitor{}
	case "monitoring.coreos.com/v1 PrometheusRule":
		return &monitoringv1.PrometheusRule{}
	case "networking.k8s.io/v1 Ingress":
		return &networkingv1.Ingress{}
	case "networking.k8s.io/v1 NetworkPolicy":
		return &networkingv1.NetworkPolicy{}
	case "policy/v1 PodDisruptionBudget":
		return &policyv1.PodDisruptionBudget{}
	case "rbac.authorization.k8s.io/v1 Role":
		return &rbacv1.Role{}
	case "rbac.authorization.k8s.io/v1 RoleBinding":
		return &rbacv1.RoleBinding{}
	case "v1 ConfigMap":
		return &corev1.ConfigMap{}
	case "v1 PersistentVolumeClaim":
		return &corev1.PersistentVolumeClaim{}
	case "v1 Secret":
		return &corev1.Secret{}
	case "v1 Service":
		return &corev1.Service{}
	case "v1 ServiceAccount":
		return &corev1.ServiceAccount{}
	default:
		return nil
	}
}

// decode decodes an object strictly: a field that its API does not have is an error, and so is one with other letters in
// upper case, or one that occurs twice.
func decode(doc string) (object, error) {
	text, err := yaml.YAMLToJSONStrict([]byte(doc))
	if err != nil {
		return object{}, err
	}
	var head metav1.PartialObjectMetadata
	if err := json.UnmarshalCaseSensitivePreserveInts(text, &head); err != nil {
		return object{}, err
	}
	into := newObject(head.APIVersion, head.Kind)
	if into == nil {
		return object{}, fmt.Errorf("the chart has an object of %s %s, which this test cannot decode: add it to newObject", head.APIVersion, head.Kind)
	}
	faults, err := json.UnmarshalStrict(text, into)
	if err != nil {
		return object{}, fmt.Errorf("%s %s: %w", head.Kind, head.Name, err)
	}
	if len(faults) > 0 {
		return object{}, fmt.Errorf("%s %s: %w", head.Kind, head.Name, faults[0])
	}
	return object{kind: head.Kind, name: head.Name, labels: head.Labels, typed: into}, nil
}

func decodeAll(docs []string) (objects []object, err error) {
	for _, doc := range docs {
		o, err := decode(doc)
		if err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// render renders the chart with a set of values and decodes all objects.
func render(t *testing.T, values map[string]any) rendered {
	t.Helper()
	docs, notes, err := manifests(t, values)
	require.NoError(t, err)
	objects, err := decodeAll(docs)
	require.NoError(t, err)
	return rendered{objects: objects, notes: notes, values: values}
}

// all returns the objects of a type.
func all[T any](r rendered) []*T {
	var out []*T
	for _, o := range r.objects {
		if typed, ok := o.typed.(*T); ok {
			out = append(out, typed)
		}
	}
	return out
}

func readTop(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, filepath.FromSlash(name)))
	require.NoError(t, err)
	return string(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")))
}
