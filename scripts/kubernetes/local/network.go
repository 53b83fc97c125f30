package main

import (
	"fmt"
	"log"
	"net/netip"
	"os/exec"
	"sort"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	networklisters "k8s.io/client-go/listers/networking/v1"
)

const together = 20 * time.Millisecond // so many changes make one table

// A network keeps one nftables table that says what policies allow, replaced as a whole. IPv4 alone; an
// egress port by its name is allowed nowhere; a new Pod is open until its address is known.
type network struct {
	pods       corelisters.PodLister
	namespaces corelisters.NamespaceLister
	policies   networklisters.NetworkPolicyLister
	changed    chan struct{}
}

func newNetwork(factory informers.SharedInformerFactory) *network {
	pods, namespaces := factory.Core().V1().Pods(), factory.Core().V1().Namespaces()
	policies := factory.Networking().V1().NetworkPolicies()
	return &network{
		pods: pods.Lister(), namespaces: namespaces.Lister(), policies: policies.Lister(),
		changed: changes(pods.Informer(), namespaces.Informer(), policies.Informer()),
	}
}

func (n *network) run() {
	table := ""
	for range n.changed {
		time.Sleep(together)
		wanted := n.table()
		if wanted == table {
			continue
		}
		command := exec.Command("nft", "-f", "-")
		command.Stdin = strings.NewReader(wanted)
		if output, err := command.CombinedOutput(); err != nil {
			log.Fatalf("network: %v: %s\n%s", err, output, wanted) // whoever runs us starts us again
		}
		table = wanted
	}
}

func (n *network) table() string {
	pods, _ := n.pods.List(labels.Everything())
	namespaces, _ := n.namespaces.List(labels.Everything())
	policies, _ := n.policies.List(labels.Everything())
	sort.Slice(policies, func(i, j int) bool { return policies[i].UID < policies[j].UID })
	view := view{pods: reachable(pods), namespaces: map[string]map[string]string{}}
	for _, namespace := range namespaces {
		view.namespaces[namespace.Name] = namespace.Labels
	}
	var chains, in, out strings.Builder
	for _, pod := range view.pods {
		id := strings.ReplaceAll(string(pod.UID), "-", "")
		var ingress, egress []string
		isIsolatedIn, isIsolatedOut := false, false
		for _, policy := range policies {
			if policy.Namespace != pod.Namespace || !selects(&policy.Spec.PodSelector, pod.Labels) {
				continue
			}
			for _, kind := range policy.Spec.PolicyTypes {
				isIsolatedIn = isIsolatedIn || kind == networking.PolicyTypeIngress
				isIsolatedOut = isIsolatedOut || kind == networking.PolicyTypeEgress
			}
			for _, rule := range policy.Spec.Ingress {
				ingress = append(ingress, view.matches("saddr", pod, rule.From, rule.Ports)...)
			}
			for _, rule := range policy.Spec.Egress {
				egress = append(egress, view.matches("daddr", pod, rule.To, rule.Ports)...)
			}
		}
		if isIsolatedIn {
			chains.WriteString(chain("in"+id, ingress))
			fmt.Fprintf(&in, "    ip daddr %s jump in%s\n", pod.Status.PodIP, id)
		}
		if isIsolatedOut {
			chains.WriteString(chain("out"+id, egress))
			fmt.Fprintf(&out, "    ip saddr %s jump out%s\n", pod.Status.PodIP, id)
		}
	}
	return "table ip policies {}\ndelete table ip policies\ntable ip policies {\n" + chains.String() +
		hook("forward", out.String()+in.String()) + hook("input", out.String()) + "}\n"
}

// hook sends what a connection begins with to the chains of Pods; what belongs to one goes on.
func hook(name, jumps string) string {
	return fmt.Sprintf(`  chain %[1]s {
    type filter hook %[1]s priority filter; policy accept;
    ct state established,related accept
%[2]s  }
`, name, jumps)
}

// chain returns to whoever asked for what is allowed, and drops the rest.
func chain(name string, allowed []string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "  chain %s {\n", name)
	for _, match := range allowed {
		fmt.Fprintf(&text, "    %s return\n", match)
	}
	text.WriteString("    counter drop\n  }\n")
	return text.String()
}

type view struct {
	pods       []*core.Pod
	namespaces map[string]map[string]string
}

func reachable(pods []*core.Pod) []*core.Pod {
	var reached []*core.Pod
	for _, pod := range pods {
		address, err := netip.ParseAddr(pod.Status.PodIP)
		isOver := pod.Status.Phase == core.PodSucceeded || pod.Status.Phase == core.PodFailed
		if err == nil && address.Is4() && !pod.Spec.HostNetwork && !isOver {
			reached = append(reached, pod)
		}
	}
	sort.Slice(reached, func(i, j int) bool { return reached[i].UID < reached[j].UID })
	return reached
}

func selects(selector *meta.LabelSelector, of map[string]string) bool {
	parsed, err := meta.LabelSelectorAsSelector(selector)
	return err == nil && parsed.Matches(labels.Set(of))
}

// matches says as nftables what one rule of a Pod's policy allows: each peer at each port.
func (v view) matches(
	side string, pod *core.Pod, peers []networking.NetworkPolicyPeer, ports []networking.NetworkPolicyPort,
) []string {
	from := v.addresses(side, pod.Namespace, peers)
	at := portMatches(pod, ports)
	if len(peers) == 0 {
		from = []string{""}
	}
	if len(ports) == 0 {
		at = []string{""}
	}
	var all []string
	for _, address := range from {
		for _, port := range at {
			all = append(all, strings.TrimSpace(address+" "+port))
		}
	}
	return all
}

func (v view) addresses(side, namespace string, peers []networking.NetworkPolicyPeer) []string {
	var matches, addresses []string
	for _, peer := range peers {
		if peer.IPBlock != nil {
			prefix, err := netip.ParsePrefix(peer.IPBlock.CIDR)
			if err != nil || !prefix.Addr().Is4() {
				continue
			}
			match := "ip " + side + " " + prefix.Masked().String()
			if len(peer.IPBlock.Except) > 0 {
				match += " ip " + side + " != { " + strings.Join(peer.IPBlock.Except, ", ") + " }"
			}
			matches = append(matches, match)
			continue
		}
		for _, other := range v.pods {
			isThere := other.Namespace == namespace
			if peer.NamespaceSelector != nil {
				isThere = selects(peer.NamespaceSelector, v.namespaces[other.Namespace])
			}
			if isThere && (peer.PodSelector == nil || selects(peer.PodSelector, other.Labels)) {
				addresses = append(addresses, other.Status.PodIP)
			}
		}
	}
	if len(addresses) > 0 {
		matches = append(matches, "ip "+side+" { "+strings.Join(addresses, ", ")+" }")
	}
	return matches
}

func portMatches(pod *core.Pod, ports []networking.NetworkPolicyPort) []string {
	var matches []string
	for _, port := range ports {
		protocol := "tcp"
		if port.Protocol != nil {
			protocol = strings.ToLower(string(*port.Protocol))
		}
		switch {
		case port.Port == nil:
			matches = append(matches, "meta l4proto "+protocol)
		case port.Port.StrVal != "":
			for _, container := range pod.Spec.Containers {
				for _, named := range container.Ports {
					if named.Name == port.Port.StrVal {
						matches = append(matches, fmt.Sprintf("%s dport %d", protocol, named.ContainerPort))
					}
				}
			}
		case port.EndPort != nil:
			matches = append(matches, fmt.Sprintf("%s dport %d-%d", protocol, port.Port.IntVal, *port.EndPort))
		default:
			matches = append(matches, fmt.Sprintf("%s dport %d", protocol, port.Port.IntVal))
		}
	}
	return matches
}
