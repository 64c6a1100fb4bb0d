package chart

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
)

const componentLabel = "app.kubernetes.io/component"

// workload is an object that has pods.
type workload struct {
	kind, name string
	pod        corev1.PodTemplateSpec
	serves     bool // false for jobs
	claims     []corev1.PersistentVolumeClaim
}

func (w workload) component() string { return w.pod.Labels[componentLabel] }

func workloads(r rendered) []workload {
	var out []workload
	for _, o := range r.objects {
		switch typed := o.typed.(type) {
		case *appsv1.Deployment:
			out = append(out, workload{o.kind, o.name, typed.Spec.Template, true, nil})
		case *appsv1.StatefulSet:
			out = append(out, workload{o.kind, o.name, typed.Spec.Template, true, typed.Spec.VolumeClaimTemplates})
		case *batchv1.Job:
			out = append(out, workload{o.kind, o.name, typed.Spec.Template, false, nil})
		case *batchv1.CronJob:
			out = append(out, workload{o.kind, o.name, typed.Spec.JobTemplate.Spec.Template, false, nil})
		}
	}
	return out
}

// rule finds faults in what the chart has rendered.
type rule func(rendered) []string

// inEachContainer returns a rule that checks every container.
func inEachContainer(check func(w workload, c *corev1.Container) []string) rule {
	return func(r rendered) (faults []string) {
		for _, w := range workloads(r) {
			containers := append(slices.Clone(w.pod.Spec.InitContainers), w.pod.Spec.Containers...)
			for i := range containers {
				for _, fault := range check(w, &containers[i]) {
					faults = append(faults, fmt.Sprintf("%s %s, container %s: %s", w.kind, w.name, containers[i].Name, fault))
				}
			}
		}
		return faults
	}
}

// probes requires the three probes of each container that serves, on a port that the container has.
func probes(w workload, c *corev1.Container) (faults []string) {
	if !w.serves {
		return nil
	}
	for _, one := range []struct {
		name, path string
		probe      *corev1.Probe
	}{{"startup", "/healthz", c.StartupProbe}, {"liveness", "/healthz", c.LivenessProbe}, {"readiness", "/readyz", c.ReadinessProbe}} {
		switch {
		case one.probe == nil || one.probe.HTTPGet == nil:
			faults = append(faults, "has no "+one.name+" probe")
		case one.probe.HTTPGet.Path != one.path:
			faults = append(faults, fmt.Sprintf("the %s probe reads %s instead of %s", one.name, one.probe.HTTPGet.Path, one.path))
		case !slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == one.probe.HTTPGet.Port.StrVal }):
			faults = append(faults, "the "+one.name+" probe names a port that the container does not have")
		}
	}
	return faults
}

// resources requires requests of CPU and memory and a limit of memory.
func resources(_ workload, c *corev1.Container) (faults []string) {
	if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() {
		faults = append(faults, "has no request of CPU or memory")
	}
	if c.Resources.Limits.Memory().IsZero() {
		faults = append(faults, "has no limit of memory")
	}
	return faults
}

// restricted requires what Pod Security calls restricted, and more: a file system that cannot be written.
func restricted(w workload, c *corev1.Container) (faults []string) {
	fault := func(ok bool, text string) {
		if !ok {
			faults = append(faults, text)
		}
	}
	pod, own := w.pod.Spec.SecurityContext, c.SecurityContext
	if pod == nil || own == nil {
		return []string{"has no security context"}
	}
	fault(isTrue(pod.RunAsNonRoot) && pod.RunAsUser != nil && *pod.RunAsUser == 65532, "may run as another user than 65532")
	fault(pod.SeccompProfile != nil && pod.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault, "does not have the seccomp profile RuntimeDefault")
	fault(isTrue(own.ReadOnlyRootFilesystem), "can write to its root file system")
	fault(own.AllowPrivilegeEscalation != nil && !*own.AllowPrivilegeEscalation, "may gain privileges")
	fault(own.Capabilities != nil && slices.Equal(own.Capabilities.Drop, []corev1.Capability{"ALL"}) && len(own.Capabilities.Add) == 0, "has capabilities")
	fault(!w.pod.Spec.HostNetwork && !w.pod.Spec.HostPID && !w.pod.Spec.HostIPC, "shares namespaces with the host")
	token := isTrue(w.pod.Spec.AutomountServiceAccountToken) || w.pod.Spec.AutomountServiceAccountToken == nil
	fault(!token || w.component() == "setup", "has a token of the API server")
	return faults
}

func isTrue(b *bool) bool { return b != nil && *b }

// images requires an image with a digest or with a tag that names one version.
func images(_ workload, c *corev1.Container) []string {
	name, digest, hasDigest := strings.Cut(c.Image, "@")
	if hasDigest {
		if !strings.HasPrefix(digest, "sha256:") {
			return []string{"the digest of the image " + c.Image + " is not valid"}
		}
		return nil
	}
	_, tag, _ := strings.Cut(name[strings.LastIndex(name, "/")+1:], ":")
	if tag == "" || tag == "latest" {
		return []string{"the image " + c.Image + " has no version"}
	}
	return nil
}

// mounts requires that mounts and volumes belong together, and that secrets are mounted read-only and closed to others.
func mounts(r rendered) (faults []string) {
	for _, w := range workloads(r) {
		volumes, used := map[string]bool{}, map[string]bool{}
		for _, claim := range w.claims {
			volumes[claim.Name] = false
		}
		for _, v := range w.pod.Spec.Volumes {
			volumes[v.Name] = v.Secret != nil || v.Projected != nil
			open := v.Secret != nil && (v.Secret.DefaultMode == nil || *v.Secret.DefaultMode != 0o440)
			if open || v.Projected != nil && (v.Projected.DefaultMode == nil || *v.Projected.DefaultMode != 0o440) {
				faults = append(faults, fmt.Sprintf("%s: the secrets of the volume %s do not have the mode 0440", w.name, v.Name))
			}
		}
		for _, c := range w.pod.Spec.Containers {
			for _, m := range c.VolumeMounts {
				secret, ok := volumes[m.Name]
				used[m.Name] = true
				if !ok || secret && !m.ReadOnly {
					faults = append(faults, fmt.Sprintf("%s: the mount %s has no volume, or is a secret that can be written", w.name, m.Name))
				}
			}
		}
		for name := range volumes {
			if !used[name] {
				faults = append(faults, fmt.Sprintf("%s: the volume %s is not mounted", w.name, name))
			}
		}
	}
	return faults
}

// grace requires that a pod is killed only after its requests could finish: after the time in which it drains, the time
// that open requests have, and the second that the process then takes.
func grace(r rendered) (faults []string) {
	for _, w := range workloads(r) {
		if !w.serves {
			continue
		}
		env := environment(w.pod.Spec.Containers[0])
		longest := seconds(env["SERVICE_DRAIN_DELAY"]) + seconds(env["SERVICE_STOP_GRACE"]) + 6
		if given := w.pod.Spec.TerminationGracePeriodSeconds; given == nil || *given <= longest {
			faults = append(faults, fmt.Sprintf("%s is killed before it can stop, which takes %d s", w.name, longest))
		}
	}
	return faults
}

func seconds(text string) (n int64) {
	if _, err := fmt.Sscanf(text, "%ds", &n); err != nil {
		return 1 << 40
	}
	return n
}

func environment(c corev1.Container) map[string]string {
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = e.Value
	}
	return env
}

// budgets requires a disruption budget for each service, and that autoscalers and budgets name existing workloads.
func budgets(r rendered) (faults []string) {
	names := map[string]bool{}
	for _, w := range workloads(r) {
		names[w.kind+"/"+w.name] = true
		if !w.serves {
			continue
		}
		covers := func(b *policyv1.PodDisruptionBudget) bool {
			return b.Spec.MaxUnavailable != nil && selects(b.Spec.Selector, w.pod.Labels)
		}
		if !slices.ContainsFunc(all[policyv1.PodDisruptionBudget](r), covers) {
			faults = append(faults, w.name+" has no disruption budget")
		}
	}
	for _, h := range all[autoscalingv2.HorizontalPodAutoscaler](r) {
		if to := h.Spec.ScaleTargetRef; !names[to.Kind+"/"+to.Name] {
			faults = append(faults, fmt.Sprintf("the autoscaler %s scales %s %s, which does not exist", h.Name, to.Kind, to.Name))
		}
	}
	return faults
}
