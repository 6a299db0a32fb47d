package k8s

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// workload makes pods.
type workload struct {
	name     string
	replicas int
	template *corev1.PodTemplateSpec
	program  program
	routed   bool // a Service leads to it
}

func (w *workload) container() *corev1.Container { return &w.template.Spec.Containers[0] }

// plan is everything that one kustomization makes. Each rule returns the plan's faults, one sentence each.
type plan struct {
	objects   []runtime.Object
	configs   map[string]*corev1.ConfigMap
	workloads []*workload
}

func planOf(objects []runtime.Object) *plan {
	p := &plan{objects: objects, configs: map[string]*corev1.ConfigMap{}}
	for _, o := range objects {
		switch o := o.(type) {
		case *corev1.ConfigMap:
			p.configs[o.Name] = o
		case *appsv1.Deployment:
			p.workloads = append(p.workloads, &workload{name: o.Name, replicas: int(*o.Spec.Replicas), template: &o.Spec.Template})
		case *batchv1.Job:
			p.workloads = append(p.workloads, &workload{name: o.Name, replicas: int(*o.Spec.Completions), template: &o.Spec.Template})
		}
	}
	for _, w := range p.workloads {
		w.program = programOf(w.container(), p.configs)
	}
	return p
}

func (p *plan) broken() []string {
	problems := p.selectors()
	for _, w := range p.workloads {
		if n := len(w.template.Spec.Containers); n != 1 {
			problems = append(problems, fmt.Sprintf("%s has %d containers; the rules know one", w.name, n))
		}
		for _, rule := range []func(*workload) []string{pinned, settings, secrets, probes, stops, resources, shards, closed} {
			problems = append(problems, rule(w)...)
		}
		for _, sentence := range restricted(w.template) {
			problems = append(problems, w.name+": "+sentence)
		}
	}
	return problems
}

// selectors: a selector selects the pods of exactly one workload, and names ports that they have.
func (p *plan) selectors() (problems []string) {
	for _, o := range p.objects {
		switch o := o.(type) {
		case *corev1.Service:
			ports := make([]intstr.IntOrString, 0, len(o.Spec.Ports))
			for _, port := range o.Spec.Ports {
				ports = append(ports, port.TargetPort)
			}
			w, said := p.leads("Service "+o.Name, &metav1.LabelSelector{MatchLabels: o.Spec.Selector}, ports)
			w.routed = true
			problems = append(problems, said...)
		case *networkingv1.NetworkPolicy:
			var ports []intstr.IntOrString
			for _, ingress := range o.Spec.Ingress {
				for _, port := range ingress.Ports {
					ports = append(ports, *port.Port)
				}
			}
			_, said := p.leads("NetworkPolicy "+o.Name, &o.Spec.PodSelector, ports)
			problems = append(problems, said...)
		case *policyv1.PodDisruptionBudget:
			w, said := p.leads("PodDisruptionBudget "+o.Name, o.Spec.Selector, nil)
			if away := o.Spec.MaxUnavailable.IntValue(); said == nil && (away < 1 || w.replicas-away < 1) {
				said = []string{fmt.Sprintf("%s: %d of %d may be away; one at least may and one at least stays", o.Name, away, w.replicas)}
			}
			problems = append(problems, said...)
		}
	}
	return append(problems, p.spread()...)
}

// leads returns the selected workload, or an empty one.
func (p *plan) leads(who string, by *metav1.LabelSelector, ports []intstr.IntOrString) (w *workload, problems []string) {
	if w = p.selected(by); w == nil {
		return &workload{}, []string{who + " selects no workload, or several"}
	}
	for _, port := range ports {
		if number(w.container(), port) == 0 {
			problems = append(problems, fmt.Sprintf("%s: port %v is not declared by %s", who, port.String(), w.name))
		}
	}
	return w, problems
}

func (p *plan) selected(by *metav1.LabelSelector) *workload {
	selector, err := metav1.LabelSelectorAsSelector(by)
	if err != nil {
		return nil
	}
	var found []*workload
	for _, w := range p.workloads {
		if selector.Matches(labels.Set(w.template.Labels)) {
			found = append(found, w)
		}
	}
	if len(found) != 1 {
		return nil
	}
	return found[0]
}

// spread: replicas run on different machines, counted by a selector that selects them.
func (p *plan) spread() (problems []string) {
	for _, w := range p.workloads {
		for _, c := range w.template.Spec.TopologySpreadConstraints {
			selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
			if err != nil || !selector.Matches(labels.Set(w.template.Labels)) {
				problems = append(problems, w.name+": the spread constraint counts other pods")
			}
		}
		if w.program.name == "node" && len(w.template.Spec.TopologySpreadConstraints) == 0 {
			problems = append(problems, w.name+": all replicas may stand on one machine")
		}
	}
	return problems
}

// pinned: an image has a fixed tag.
func pinned(w *workload) []string {
	if _, tag, _ := strings.Cut(path.Base(w.container().Image), ":"); tag == "" || tag == "latest" {
		return []string{fmt.Sprintf("%s: the image %q is not pinned", w.name, w.container().Image)}
	}
	return nil
}

// settings: the program knows every flag and variable, and can parse their values.
func settings(w *workload) (problems []string) {
	help, err := w.program.help()
	if err != nil {
		return []string{w.name + ": " + err.Error()}
	}
	for _, name := range slices.Sorted(maps.Keys(w.program.env)) {
		if strings.HasPrefix(name, "LEASESTORM_") && !regexp.MustCompile(`\b`+name+`\b`).MatchString(help) {
			problems = append(problems, fmt.Sprintf("%s: the program does not know %s", w.name, name))
		}
	}
	for _, arg := range w.program.args {
		if variable.MatchString(arg) {
			problems = append(problems, fmt.Sprintf("%s: %s: no such variable", w.name, arg))
		}
	}
	return problems
}

// secrets: files that a node reads are mounted from a Secret, read-only.
func secrets(w *workload) (problems []string) {
	if w.program.name != "node" {
		return nil
	}
	files := []string{w.program.env["LEASESTORM_REDIS_PASSWORD_FILE"]}
	if w.program.setting("role") == "api" {
		files = append(files, w.program.setting("tokens"))
	}
	volumes := map[string]corev1.Volume{}
	for _, v := range w.template.Spec.Volumes {
		volumes[v.Name] = v
	}
	for _, file := range files {
		at := slices.IndexFunc(w.container().VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == path.Dir(file) })
		if at < 0 {
			problems = append(problems, fmt.Sprintf("%s: nothing is mounted where %q is read", w.name, file))
			continue
		}
		mount := w.container().VolumeMounts[at]
		secret := volumes[mount.Name].Secret
		if secret == nil || *secret.DefaultMode != 0o440 || mount.SubPath != "" || w.template.Spec.SecurityContext.FSGroup == nil {
			problems = append(problems, fmt.Sprintf("%s: %q must be of a Secret, of mode 0440 with an fsGroup, without a subPath", w.name, file))
		}
	}
	return problems
}

// probes: they use the node's port, and liveness does not depend on Redis.
func probes(w *workload) (problems []string) {
	if w.program.name != "node" {
		return nil
	}
	c := w.container()
	for want, probe := range map[string]*corev1.Probe{"/readyz": c.ReadinessProbe, "/healthz": c.LivenessProbe} {
		switch {
		case probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != want:
			problems = append(problems, fmt.Sprintf("%s: one probe must ask %s: readiness what Redis says, liveness what it does not", w.name, want))
		case w.program.env["LEASESTORM_HEALTH_ADDR"] != fmt.Sprintf(":%d", number(c, probe.HTTPGet.Port)):
			problems = append(problems, fmt.Sprintf("%s: %s is asked at port %v, the node answers at %q", w.name, want,
				probe.HTTPGet.Port.String(), w.program.env["LEASESTORM_HEALTH_ADDR"]))
		}
	}
	if api := w.program.setting("api"); api != "" && api != fmt.Sprintf(":%d", number(c, intstr.FromString("api"))) {
		problems = append(problems, fmt.Sprintf("%s: the port api is not %q", w.name, api))
	}
	return problems
}

// number is the number of a port that the container declares, 0 if it does not.
func number(c *corev1.Container, port intstr.IntOrString) int32 {
	for _, p := range c.Ports {
		if p.Name == port.StrVal && port.Type == intstr.String || p.ContainerPort == port.IntVal && port.Type == intstr.Int {
			return p.ContainerPort
		}
	}
	return 0
}

// stops: a node has the time of a clean stop. It waits before its stop only if a Service still routes to it.
func stops(w *workload) (problems []string) {
	if w.program.name != "node" {
		return nil
	}
	need, err := w.program.stopMax()
	if err != nil {
		return []string{err.Error()}
	}
	waits := w.container().Lifecycle != nil
	if waits != w.routed {
		problems = append(problems, fmt.Sprintf("%s: preStop: %v, a Service leads to it: %v", w.name, waits, w.routed))
	}
	if waits {
		need += time.Duration(w.container().Lifecycle.PreStop.Sleep.Seconds) * time.Second
	}
	if grace := time.Duration(*w.template.Spec.TerminationGracePeriodSeconds) * time.Second; grace <= need {
		problems = append(problems, fmt.Sprintf("%s is killed after %v; a clean stop takes up to %v", w.name, grace, need))
	}
	return problems
}

// resources: the scheduler knows a pod's needs, and memory is limited.
func resources(w *workload) []string {
	r := w.container().Resources
	if r.Requests.Cpu().IsZero() || r.Requests.Memory().IsZero() || r.Limits.Memory().Cmp(*r.Requests.Memory()) < 0 ||
		w.program.name == "node" && !r.Limits.Cpu().IsZero() {
		return []string{fmt.Sprintf("%s: resources: cpu and memory are requested, memory is limited, a node's cpu is not", w.name)}
	}
	return nil
}

// shards: an exploration has as many pods as its range has parts.
func shards(w *workload) []string {
	if n := w.program.env["SHARDS"]; w.program.name == "simulate" && n != fmt.Sprint(w.replicas) {
		return []string{fmt.Sprintf("%s: %d pods for %s shards", w.name, w.replicas, n)}
	}
	return nil
}

// closed: further rules that the Pod Security Standards leave open.
func closed(w *workload) (problems []string) {
	spec, c := w.template.Spec, w.container()
	if c.SecurityContext == nil || c.SecurityContext.ReadOnlyRootFilesystem == nil || !*c.SecurityContext.ReadOnlyRootFilesystem {
		problems = append(problems, w.name+": the root file system can be written")
	}
	if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
		problems = append(problems, w.name+": it has a token for the API server, which it never asks")
	}
	if spec.EnableServiceLinks == nil || *spec.EnableServiceLinks {
		problems = append(problems, w.name+": a Service named leasestorm-… sets variables that it takes for its own")
	}
	return problems
}
