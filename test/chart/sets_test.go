package chart

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// rules returns all rules for what the chart renders.
func rules(t *testing.T) map[string]rule {
	t.Helper()
	return map[string]rule{
		"probes": inEachContainer(probes), "resources": inEachContainer(resources), "restricted": inEachContainer(restricted), "images": inEachContainer(images),
		"mounts": mounts, "grace": grace, "budgets": budgets, "placed": placed,
		"secrets exist": secretsExist, "no secrets": noSecrets(secretSettings(t)), "own secrets": ownSecrets,
		"edges": edgesEqual(codeEdges(t)), "denied": denied, "reachable": reachable(codeEdges(t)), "hooked": hooked, "trusts": inEachContainer(trusts), "outside": outsideEqual, "services": servicesReach, "ports": portsEqual(ports(t)),
		"settings": settingsExist(settings(t)), "metrics": metricsExist(metricNames(t)), "runbooks": runbooks(headings(t)), "unique": unique,
	}
}

func TestSets(t *testing.T) {
	t.Parallel()
	names := sets(t)
	require.GreaterOrEqual(t, len(names), 12)
	checks := rules(t)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := render(t, readSet(t, name))
			require.NotEmpty(t, r.notes)
			for of, check := range checks {
				require.Empty(t, check(r), of)
			}
		})
	}
}

// unique requires that no two objects have the same kind and name.
func unique(r rendered) (faults []string) {
	seen := map[string]bool{}
	for _, o := range r.objects {
		if seen[o.kind+o.name] {
			faults = append(faults, fmt.Sprintf("there are two objects %s %s", o.kind, o.name))
		}
		seen[o.kind+o.name] = true
	}
	return faults
}

// settingsExist returns a rule that requires that each variable of a container is a setting of the product.
func settingsExist(known map[string]bool) rule {
	return inEachContainer(func(_ workload, c *corev1.Container) (faults []string) {
		for _, e := range c.Env {
			if !known[e.Name] && e.Name != "SSL_CERT_FILE" { // which Go reads
				faults = append(faults, "the variable "+e.Name+" is not in docs/reference/settings.md")
			}
		}
		return faults
	})
}
