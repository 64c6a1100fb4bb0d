package chart

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/yaml"
)

// placement is the part of `defaults` that also applies to the pods of jobs.
type placement struct {
	PodLabels         map[string]string   `json:"podLabels"`
	PodAnnotations    map[string]string   `json:"podAnnotations"`
	NodeSelector      map[string]string   `json:"nodeSelector"`
	Tolerations       []corev1.Toleration `json:"tolerations"`
	Affinity          corev1.Affinity     `json:"affinity"`
	PriorityClassName string              `json:"priorityClassName"`
}

// placed requires that the pods of jobs have what `defaults` sets for all pods: a job that no node may run would hold up
// the installation. Affinity to other pods is left out, because these may not exist when the job runs.
func placed(r rendered) (faults []string) {
	var want placement
	raw, err := yaml.Marshal(r.values["defaults"])
	if err == nil {
		err = yaml.Unmarshal(raw, &want)
	}
	if err != nil {
		return []string{err.Error()}
	}
	var affinity *corev1.Affinity
	if want.Affinity.NodeAffinity != nil {
		affinity = &corev1.Affinity{NodeAffinity: want.Affinity.NodeAffinity}
	}
	for _, w := range workloads(r) {
		if w.serves {
			continue
		}
		fault := func(ok bool, text string) {
			if !ok {
				faults = append(faults, fmt.Sprintf("%s %s: %s", w.kind, w.name, text))
			}
		}
		spec := w.pod.Spec
		fault(equality.Semantic.DeepEqual(spec.NodeSelector, want.NodeSelector), "the nodeSelector is not that of defaults")
		fault(equality.Semantic.DeepEqual(spec.Tolerations, want.Tolerations), "the tolerations are not those of defaults")
		fault(equality.Semantic.DeepEqual(spec.Affinity, affinity), "the nodeAffinity is not that of defaults, or there is another affinity")
		fault(spec.PriorityClassName == want.PriorityClassName, "the priorityClassName is not that of defaults")
		fault(contained(want.PodLabels, w.pod.Labels), "the podLabels of defaults are missing")
		fault(contained(want.PodAnnotations, w.pod.Annotations), "the podAnnotations of defaults are missing")
		fault(w.component() == "setup" || w.component() == "migrate", "the labels do not select its network policy")
	}
	return faults
}

// contained reports whether a map has all entries of another.
func contained(want, of map[string]string) bool {
	for key, value := range want {
		if got, ok := of[key]; !ok || got != value {
			return false
		}
	}
	return true
}
