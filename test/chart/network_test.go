package chart

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func selects(s *metav1.LabelSelector, of map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(labels.Set(of))
}

// policies returns the network policies that select a pod.
func policies(r rendered, of map[string]string) []*networkingv1.NetworkPolicy {
	return slices.DeleteFunc(all[networkingv1.NetworkPolicy](r), func(p *networkingv1.NetworkPolicy) bool {
		return !selects(&p.Spec.PodSelector, of)
	})
}

func covers(ports []networkingv1.NetworkPolicyPort, port int32) bool {
	if len(ports) == 0 {
		return true
	}
	return slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool {
		if p.Port == nil {
			return true
		}
		last := p.Port.IntVal
		if p.EndPort != nil {
			last = *p.EndPort
		}
		return p.Port.IntVal <= port && port <= last
	})
}

// podAddress is an address of pods.
const podAddress = "10.244.3.7"

// matcher reports whether a list of peers contains a pod with the labels.
type matcher func(peers []networkingv1.NetworkPolicyPeer, of map[string]string) bool

// hasPod is a matcher for network plugins that do not count pods among addresses. An empty list means every peer.
func hasPod(peers []networkingv1.NetworkPolicyPeer, of map[string]string) bool {
	return len(peers) == 0 || slices.ContainsFunc(peers, func(p networkingv1.NetworkPolicyPeer) bool {
		return p.PodSelector != nil && selects(p.PodSelector, of) && (p.NamespaceSelector == nil || selects(p.NamespaceSelector, nil))
	})
}

// hasAddress is a matcher for network plugins that count pods among addresses, too.
func hasAddress(peers []networkingv1.NetworkPolicyPeer, of map[string]string) bool {
	return hasPod(peers, of) || slices.ContainsFunc(peers, func(p networkingv1.NetworkPolicyPeer) bool {
		return p.IPBlock != nil && contains(p.IPBlock.CIDR) && !slices.ContainsFunc(p.IPBlock.Except, contains)
	})
}

func contains(cidr string) bool {
	return netip.MustParsePrefix(cidr).Contains(netip.MustParseAddr(podAddress))
}

// leaves reports whether the policies let a pod connect to a port of another, as far as the egress of the one decides.
func (has matcher) leaves(r rendered, from, to map[string]string, port int32) bool {
	return slices.ContainsFunc(policies(r, from), func(p *networkingv1.NetworkPolicy) bool {
		return slices.ContainsFunc(p.Spec.Egress, func(e networkingv1.NetworkPolicyEgressRule) bool {
			return covers(e.Ports, port) && has(e.To, to)
		})
	})
}

// enters reports the same as far as the ingress of the other decides.
func (has matcher) enters(r rendered, from, to map[string]string, port int32) bool {
	return slices.ContainsFunc(policies(r, to), func(p *networkingv1.NetworkPolicy) bool {
		return slices.ContainsFunc(p.Spec.Ingress, func(i networkingv1.NetworkPolicyIngressRule) bool {
			return covers(i.Ports, port) && has(i.From, from)
		})
	})
}

// edgesEqual returns a rule that requires that the policies permit exactly the connections of the code, those for egress
// and those for ingress.
func edgesEqual(code []edge) rule {
	return func(r rendered) (faults []string) {
		if len(all[networkingv1.NetworkPolicy](r)) == 0 {
			return nil // the set turns policies off
		}
		for direction, permits := range map[string]func(r rendered, from, to map[string]string, port int32) bool{"egress": matcher(hasPod).leaves, "ingress": matcher(hasPod).enters} {
			permitted := between(r, permits)
			for _, e := range permitted {
				if !slices.Contains(code, e) {
					faults = append(faults, fmt.Sprintf("%s: the policies permit %s to call %s (%s), but no program does", direction, e.from, e.to, e.port))
				}
			}
			for _, e := range code {
				if !slices.Contains(permitted, e) {
					faults = append(faults, fmt.Sprintf("%s: %s calls %s (%s), but the policies do not permit it", direction, e.from, e.to, e.port))
				}
			}
		}
		return faults
	}
}

// reachable returns a rule that requires that pods cannot open other connections than those of the code, also if the
// network plugin counts pods among addresses. Then networkPolicy.podCidrs is needed, or names of the addresses outside, to
// keep inference, which calls engines at any address, from the port for agents, which also has clients at any address.
func reachable(code []edge) rule {
	return func(r rendered) (faults []string) {
		if len(all[networkingv1.NetworkPolicy](r)) == 0 {
			return nil
		}
		given, _ := r.values["networkPolicy"].(map[string]any)
		for _, e := range between(r, func(r rendered, from, to map[string]string, port int32) bool {
			has := matcher(hasAddress)
			return has.leaves(r, from, to, port) && has.enters(r, from, to, port)
		}) {
			open := given["podCidrs"] == nil && given["engines"] == nil && e == edge{"inference", "jobs", "agents"}
			if !open && !slices.Contains(code, e) {
				faults = append(faults, fmt.Sprintf("by its address, %s can call %s (%s)", e.from, e.to, e.port))
			}
		}
		return faults
	}
}

// between returns the connections between pods of different services that are permitted. The port of the gateway for
// clients is not for services, and may be open to everyone.
func between(r rendered, permits func(r rendered, from, to map[string]string, port int32) bool) (permitted []edge) {
	for _, from := range workloads(r) {
		for _, to := range workloads(r) {
			for _, p := range to.pod.Spec.Containers[0].Ports {
				if from.name != to.name && p.Name != "public" && permits(r, from.pod.Labels, to.pod.Labels, p.ContainerPort) {
					permitted = append(permitted, edge{from.component(), to.component(), p.Name})
				}
			}
		}
	}
	return sorted(permitted)
}

// denied requires policies in both directions for each pod.
func denied(r rendered) (faults []string) {
	if len(all[networkingv1.NetworkPolicy](r)) == 0 {
		return nil
	}
	for _, w := range workloads(r) {
		for _, direction := range []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress} {
			if !slices.ContainsFunc(policies(r, w.pod.Labels), func(p *networkingv1.NetworkPolicy) bool {
				return slices.Contains(p.Spec.PolicyTypes, direction)
			}) {
				faults = append(faults, fmt.Sprintf("%s has no policy of the type %s", w.name, direction))
			}
		}
	}
	return faults
}

// outside returns the ports outside of the release that the pods of a component may call, without DNS.
func outside(r rendered, of map[string]string) (ports []string) {
	for _, p := range policies(r, of) {
		for _, e := range p.Spec.Egress {
			if len(e.To) > 0 && e.To[0].PodSelector != nil && e.To[0].NamespaceSelector == nil {
				continue
			}
			for _, port := range e.Ports {
				if port.Port.IntVal != 53 {
					ports = append(ports, strconv.Itoa(int(port.Port.IntVal)))
				}
			}
		}
	}
	slices.Sort(ports)
	return ports
}

// outsideEqual requires that each pod reaches only those parts outside of the release that its settings name.
func outsideEqual(r rendered) (faults []string) {
	if len(all[networkingv1.NetworkPolicy](r)) == 0 {
		return nil
	}
	defaults := r.values["networkPolicy"] == nil
	for _, w := range workloads(r) {
		if !defaults {
			continue // the ports of this set are others
		}
		var want []string
		need := func(port string, needed bool) {
			if needed {
				want = append(want, port)
			}
		}
		env := environment(w.pod.Spec.Containers[0])
		has := func(part string) bool {
			return slices.ContainsFunc(w.pod.Spec.Containers[0].Env, func(e corev1.EnvVar) bool { return strings.Contains(e.Name, part) })
		}
		setup := w.component() == "setup"
		need("5432", w.component() == "migrate" || has("_DATABASE_") || setup && r.values["secrets"] == nil)
		need("443", env["SERVICE_BLOB_DRIVER"] == "s3")
		need("443", setup || w.component() == "auth")
		need("6379", has("SERVICE_REDIS_URL"))
		need("1024", w.component() == "inference")
		need("4317", has("SERVICE_OTLP"))
		slices.Sort(want)
		if got := outside(r, w.pod.Labels); !slices.Equal(got, want) {
			faults = append(faults, fmt.Sprintf("%s may call the ports %v outside of the release, but uses %v", w.name, got, want))
		}
	}
	return faults
}

// servicesReach requires that each Service selects pods and names one of their ports, and that the addresses in the
// settings are those of Services.
func servicesReach(r rendered) (faults []string) {
	addresses := map[string]bool{}
	for _, s := range all[corev1.Service](r) {
		if s.Spec.PublishNotReadyAddresses {
			faults = append(faults, fmt.Sprintf("callers of %s also call pods that are not ready, such as one that cannot reach the database", s.Name))
		}
		for _, p := range s.Spec.Ports {
			addresses[fmt.Sprintf("%s:%d", s.Name, p.Port)] = true
			if !slices.ContainsFunc(workloads(r), func(w workload) bool {
				return labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(w.pod.Labels)) &&
					slices.ContainsFunc(w.pod.Spec.Containers[0].Ports, func(c corev1.ContainerPort) bool { return c.Name == p.TargetPort.StrVal })
			}) {
				faults = append(faults, fmt.Sprintf("no pod has the port %s of the Service %s", p.TargetPort.StrVal, s.Name))
			}
		}
	}
	for _, w := range workloads(r) {
		env := environment(w.pod.Spec.Containers[0])
		list := []string{env["SERVICE_GATEWAY_INGEST_ADDR"], env["SERVICE_GATEWAY_INFERENCE_ADDR"]}
		for peer := range strings.SplitSeq(env["SERVICE_PEERS"], ",") {
			_, address, _ := strings.Cut(peer, "=")
			list = append(list, address)
		}
		for _, address := range list {
			if address != "" && !addresses[address] {
				faults = append(faults, fmt.Sprintf("%s calls %s, which is not the address of a Service", w.name, address))
			}
		}
	}
	return faults
}

// portsEqual returns a rule that requires the ports of deploy/env.
func portsEqual(want map[string]string) rule {
	return func(r rendered) (faults []string) {
		got := map[string]string{}
		for _, w := range workloads(r) {
			for _, p := range w.pod.Spec.Containers[0].Ports {
				if p.Name != "admin" {
					got[w.component()+" "+p.Name] = strconv.Itoa(int(p.ContainerPort))
				}
			}
		}
		for name, port := range want {
			if got[name] != port {
				faults = append(faults, fmt.Sprintf("the port of %s is %s, but %s in deploy/env", name, got[name], port))
			}
		}
		if len(got) != len(want) {
			faults = append(faults, fmt.Sprintf("deploy/env has %d ports, the chart %d", len(want), len(got)))
		}
		return faults
	}
}

func TestPeersByAddress(t *testing.T) {
	t.Parallel()
	of := map[string]string{"a": "b"}
	block := func(cidr string, except ...string) []networkingv1.NetworkPolicyPeer {
		return []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: cidr, Except: except}}}
	}
	require.False(t, hasPod(block("0.0.0.0/0"), of))
	require.True(t, hasAddress(block("0.0.0.0/0"), of))
	require.True(t, hasAddress(block("10.0.0.0/8", "10.20.0.0/16"), of))
	require.False(t, hasAddress(block("10.0.0.0/8", "10.244.0.0/16"), of))
	require.False(t, hasAddress(block("10.20.0.0/16"), of))
	require.False(t, hasAddress(block("::/0"), of))
}
