package chart

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// references returns each Secret that the objects name, with the objects that name it.
func references(r rendered) map[string]string {
	out := map[string]string{}
	for _, w := range workloads(r) {
		for _, v := range w.pod.Spec.Volumes {
			if v.Secret != nil {
				out[v.Secret.SecretName] = w.name
			}
			if v.Projected == nil {
				continue
			}
			for _, s := range v.Projected.Sources {
				if s.Secret != nil {
					out[s.Secret.Name] = w.name
				}
			}
		}
		for _, p := range w.pod.Spec.ImagePullSecrets {
			out[p.Name] = w.name
		}
		for _, c := range w.pod.Spec.Containers {
			for _, e := range c.Env {
				if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
					out[e.ValueFrom.SecretKeyRef.Name] = w.name
				}
			}
		}
	}
	for _, i := range all[networkingv1.Ingress](r) {
		for _, t := range i.Spec.TLS {
			out[t.SecretName] = i.Name
		}
	}
	return out
}

// generated returns the Secrets that the setup job may create.
func generated(r rendered) []string {
	var names []string
	for _, role := range all[rbacv1.Role](r) {
		for _, one := range role.Rules {
			names = append(names, one.ResourceNames...)
		}
	}
	return names
}

// textsOf returns all texts in values.
func textsOf(value any) []string {
	switch v := value.(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, one := range v {
			out = append(out, textsOf(one)...)
		}
		return out
	case map[string]any:
		var out []string
		for _, one := range v {
			out = append(out, textsOf(one)...)
		}
		return out
	default:
		return nil
	}
}

// secretsExist requires that each Secret is named in the values or generated.
func secretsExist(r rendered) (faults []string) {
	known := append(generated(r), textsOf(r.values)...)
	for _, s := range all[corev1.Secret](r) {
		known = append(known, s.Name)
	}
	for name, user := range references(r) {
		if !slices.Contains(known, name) {
			faults = append(faults, fmt.Sprintf("%s reads the Secret %s, which neither the values nor the setup job provide", user, name))
		}
	}
	return faults
}

// secretSettings returns the settings of docs/reference/settings.md that are secrets.
func secretSettings(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(SERVICE_[A-Z0-9_]+)` \\| secret \\|").FindAllStringSubmatch(readTop(t, "docs/reference/settings.md"), -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// noSecrets returns a rule that finds secrets in arguments, environment variables, annotations and ConfigMaps. The chart
// also has no Secret of its own, because Helm stores all objects of a release as text.
func noSecrets(secretNames []string) rule {
	looks := regexp.MustCompile(`://[^/@\s:]+:[^/@\s]+@|PRIVATE KEY|[A-Za-z0-9+/]{43}=|(?i)(password|secret|token)['"]?[=:] ?['"]?[a-z0-9]{8}`)
	return func(r rendered) (faults []string) {
		find := func(where, text string) {
			if looks.MatchString(text) {
				faults = append(faults, where+" contains what looks like a secret")
			}
		}
		for _, w := range workloads(r) {
			for _, c := range w.pod.Spec.Containers {
				for _, text := range append(slices.Clone(c.Args), c.Command...) {
					find(w.name+": an argument", text)
				}
				for _, e := range c.Env {
					find(w.name+": the variable "+e.Name, e.Value)
					if slices.Contains(secretNames, e.Name) && e.ValueFrom == nil {
						faults = append(faults, fmt.Sprintf("%s: the variable %s is a secret; it must be in a file", w.name, e.Name))
					}
				}
			}
			for key, text := range w.pod.Annotations {
				find(w.name+": the annotation "+key, text)
			}
		}
		for _, m := range all[corev1.ConfigMap](r) {
			for key, text := range m.Data {
				find("the ConfigMap "+m.Name+": "+key, text)
			}
		}
		for _, s := range all[corev1.Secret](r) {
			if len(s.Data)+len(s.StringData) > 0 {
				faults = append(faults, "the Secret "+s.Name+" has contents, which Helm would store with the release")
			}
		}
		return faults
	}
}

// ownSecrets requires that each pod gets only the secrets of its own service, and that only jobs gets the key of the CA
// and only a migration and the job after a restore the URL of a schema's owner.
func ownSecrets(r rendered) (faults []string) {
	for _, w := range workloads(r) {
		for _, v := range w.pod.Spec.Volumes {
			for _, item := range itemsOf(v) {
				service, rest, isURL := strings.Cut(item, ".database-")
				owner := rest == "owner-url"
				switch {
				case isURL && owner && !strings.HasSuffix(w.name, "-migrate-"+service) && !strings.HasSuffix(w.name, "-restored"),
					isURL && !owner && w.component() != service:
					faults = append(faults, fmt.Sprintf("%s gets %s", w.name, item))
				case item == "tls.key" && w.component() != "jobs":
					faults = append(faults, w.name+" gets the key of the CA")
				case item == "keyring" && !slices.Contains([]string{"auth", "jobs", "registry"}, w.component()):
					faults = append(faults, w.name+" gets the keyring")
				}
			}
			if v.Secret != nil && v.Name == "tls" && !strings.HasSuffix(v.Secret.SecretName, "-"+w.component()) {
				faults = append(faults, w.name+" gets the certificate of another service")
			}
		}
	}
	return faults
}

func itemsOf(v corev1.Volume) []string {
	var keys []string
	add := func(items []corev1.KeyToPath) {
		for _, i := range items {
			keys = append(keys, i.Key)
		}
	}
	if v.Secret != nil {
		add(v.Secret.Items)
	}
	if v.Projected != nil {
		for _, s := range v.Projected.Sources {
			if s.Secret != nil {
				add(s.Secret.Items)
			}
		}
	}
	return keys
}
