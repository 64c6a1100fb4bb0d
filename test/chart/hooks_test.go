package chart

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hook is when Helm applies an object that is a hook.
type hook struct {
	events []string
	weight int
}

func hookOf(o metav1.Object) (h hook, ok bool) {
	events, ok := o.GetAnnotations()["helm.sh/hook"]
	h.events = strings.Split(events, ",")
	h.weight, _ = strconv.Atoi(o.GetAnnotations()["helm.sh/hook-weight"]) // without a weight it is 0
	return h, ok
}

// precedes reports whether a hook is applied before another one, at each event of that one.
func (h hook) precedes(other hook) bool {
	return h.weight < other.weight && !slices.ContainsFunc(other.events, func(e string) bool { return !slices.Contains(h.events, e) })
}

// hooked requires that no job waits for pods to be ready, because `helm upgrade --wait` waits for them first, and that
// policies with everything that a job may call are there before the job: Helm creates and replaces other policies after
// these jobs.
func hooked(r rendered) (faults []string) {
	for _, job := range all[batchv1.Job](r) {
		own, ok := hookOf(job)
		if !ok || slices.ContainsFunc(own.events, func(e string) bool { return strings.HasPrefix(e, "post-") }) {
			faults = append(faults, job.Name+" runs only after the pods are ready")
			continue
		}
		selecting := policies(r, job.Spec.Template.Labels)
		var before []networkingv1.NetworkPolicyEgressRule
		for _, p := range selecting {
			if h, ok := hookOf(p); ok && h.precedes(own) && len(p.Spec.PolicyTypes) == 2 {
				before = append(before, p.Spec.Egress...)
			}
		}
		for _, p := range selecting {
			for _, e := range p.Spec.Egress {
				if !slices.ContainsFunc(before, func(b networkingv1.NetworkPolicyEgressRule) bool { return reflect.DeepEqual(b, e) }) {
					faults = append(faults, fmt.Sprintf("%s runs before a policy with its rules exists or is replaced: %s", job.Name, p.Name))
				}
			}
		}
	}
	return faults
}

// A restored database is migrated and then settled, while the pods are in maintenance.
func TestOrderOfJobs(t *testing.T) {
	t.Parallel()
	hooks := map[string]hook{}
	for _, job := range all[batchv1.Job](render(t, readSet(t, "restored"))) {
		hooks[job.Name], _ = hookOf(job)
	}
	require.True(t, hooks["prod-signalbox-setup"].precedes(hooks["prod-signalbox-migrate-auth"]))
	require.True(t, hooks["prod-signalbox-migrate-auth"].precedes(hooks["prod-signalbox-restored"]))
	require.Equal(t, []string{"pre-upgrade"}, hooks["prod-signalbox-restored"].events)
}

func TestRestoredOfStoppedServices(t *testing.T) {
	t.Parallel()
	r := render(t, with(t, `{audit: {accessMode: ReadWriteOncePod}, defaults: {replicas: 1}, restored: {run: true, stopped: true}}`))
	require.True(t, slices.ContainsFunc(r.objects, func(o object) bool { return o.name == "prod-signalbox-restored" }))
}
