package deploy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// TestRestricted holds every pod to the restricted profile of Kubernetes, and to more: a read-only root, no token, no
// variable from a secret, memory bounded, nothing mounted from the node.
func TestRestricted(t *testing.T) {
	for _, set := range valueSets {
		for _, d := range all[*appsv1.Deployment](objects(t, values(t, set))) {
			pod := d.Spec.Template.Spec
			name := set + ": " + d.Name
			is := func(ok bool, what string) {
				t.Helper()
				if !ok {
					t.Errorf("%s: %s", name, what)
				}
			}
			is(pod.AutomountServiceAccountToken != nil && !*pod.AutomountServiceAccountToken, "the token of the service account is mounted")
			is(pod.EnableServiceLinks != nil && !*pod.EnableServiceLinks, "links to services become variables")
			is(!pod.HostNetwork && !pod.HostPID && !pod.HostIPC, "it shares a namespace of the node")
			sc := pod.SecurityContext
			is(sc != nil && sc.RunAsNonRoot != nil && *sc.RunAsNonRoot && *sc.RunAsUser != 0 && *sc.RunAsGroup != 0, "it may run as root")
			is(sc.SeccompProfile != nil && sc.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault, "no seccomp profile")
			is(len(pod.InitContainers) == 0 && len(pod.Containers) == 1, "not one container")
			c := pod.Containers[0]
			is(!*c.SecurityContext.AllowPrivilegeEscalation, "it may gain privileges")
			is(*c.SecurityContext.ReadOnlyRootFilesystem, "its root can be written")
			is(cmp.Equal(c.SecurityContext.Capabilities, &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}), "it has capabilities")
			is(!c.Resources.Limits.Memory().IsZero() && !c.Resources.Requests.Memory().IsZero() && !c.Resources.Requests.Cpu().IsZero(), "no bounds")
			is(len(c.EnvFrom) == 0, "variables come from elsewhere")
			for _, e := range c.Env {
				is(e.ValueFrom == nil, "variable "+e.Name+" comes from elsewhere")
			}
			volumes := map[string]corev1.Volume{}
			for _, v := range pod.Volumes {
				volumes[v.Name] = v
				is(v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil || v.ConfigMap != nil || v.Projected != nil && *v.Projected.DefaultMode == 0o440, "volume "+v.Name)
			}
			written := 0
			for _, m := range c.VolumeMounts {
				v, ok := volumes[m.Name]
				is(ok, "volume "+m.Name+" is missing")
				is(m.ReadOnly || v.EmptyDir != nil, m.MountPath+" can be written")
				if m.MountPath == "/tmp" && !m.ReadOnly {
					written++
				}
			}
			is(written == 1 && c.WorkingDir == "/tmp", "no place for temporary files")
			is(len(volumes) == len(c.VolumeMounts), "a volume isn't mounted")
			is(!strings.HasSuffix(c.Image, ":") && !strings.HasSuffix(c.Image, ":latest"), "image "+c.Image)
		}
	}
}

// TestProbes holds that the kubelet asks at the port at which the program listens, and that being ready isn't a matter of life.
func TestProbes(t *testing.T) {
	for _, d := range all[*appsv1.Deployment](objects(t, values(t, "minimal"))) {
		c := d.Spec.Template.Spec.Containers[0]
		port := map[string]int32{"coordinator": 7744, "worker": 7745}[c.Name]
		if len(c.Ports) != 1 || c.Ports[0].Name != "http" || c.Ports[0].ContainerPort != port {
			t.Errorf("%s: ports %v", d.Name, c.Ports)
		}
		got := map[string]string{}
		for name, p := range map[string]*corev1.Probe{"startup": c.StartupProbe, "liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
			got[name] = p.HTTPGet.Path + " " + p.HTTPGet.Port.String()
		}
		want := map[string]string{"startup": "/healthz http", "liveness": "/healthz http", "readiness": "/readyz http"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", d.Name, diff)
		}
		if want := "/usr/local/bin/" + c.Name; c.Command[0] != want || cmp.Diff(c.Args, []string{"--config", "/etc/aerie/aerie.yaml"}) != "" {
			t.Errorf("%s: runs %v %v", d.Name, c.Command, c.Args)
		}
	}
}

// TestSelectors holds that everything that selects pods selects those of one program, and nothing else of the release.
func TestSelectors(t *testing.T) {
	for _, set := range valueSets {
		list := objects(t, values(t, set))
		pods, services := map[string]labels.Set{}, map[string]labels.Set{}
		for _, d := range all[*appsv1.Deployment](list) {
			pods[d.Name] = d.Spec.Template.Labels
		}
		for _, s := range all[*corev1.Service](list) {
			services[s.Name] = s.Labels
		}
		only := func(kind, name string, selector *metav1.LabelSelector, among map[string]labels.Set) {
			t.Helper()
			s, err := metav1.LabelSelectorAsSelector(selector)
			if err != nil {
				t.Fatal(err)
			}
			for other, set := range among {
				if s.Matches(set) != (other == name) {
					t.Errorf("%s %s: matches %s: %v", kind, name, other, s.Matches(set))
				}
			}
		}
		for _, d := range all[*appsv1.Deployment](list) {
			only("Deployment", d.Name, d.Spec.Selector, pods)
		}
		for _, s := range all[*corev1.Service](list) {
			only("Service", s.Name, &metav1.LabelSelector{MatchLabels: s.Spec.Selector}, pods)
			if len(s.Spec.Ports) != 1 || s.Spec.Ports[0].TargetPort.String() != "http" {
				t.Errorf("Service %s: ports %v", s.Name, s.Spec.Ports)
			}
		}
		for _, p := range all[*policyv1.PodDisruptionBudget](list) {
			only("PodDisruptionBudget", p.Name, p.Spec.Selector, pods)
		}
		for _, p := range all[*networkingv1.NetworkPolicy](list) {
			only("NetworkPolicy", p.Name, &p.Spec.PodSelector, pods)
		}
		for _, m := range all[*monitoringv1.ServiceMonitor](list) {
			only("ServiceMonitor", m.Name, &m.Spec.Selector, services)
		}
	}
}

// TestGrace holds that a pod outlives its program's own time to finish.
func TestGrace(t *testing.T) {
	for set, want := range map[string]int64{"minimal": 60 + 30, "keda": 150 + 30, "everything": 90 + 30} {
		name := "night-aerie-worker"
		if set == "everything" {
			name = "night-nest-worker"
		}
		got := *one[*appsv1.Deployment](t, objects(t, values(t, set)), name).Spec.Template.Spec.TerminationGracePeriodSeconds
		if got != want {
			t.Errorf("%s: %d s, want %d", set, got, want)
		}
	}
	for text, want := range map[string]time.Duration{"1h": time.Hour, "1m1s": 61 * time.Second, "1500ms": 2 * time.Second, "0.5m": 30 * time.Second, "10m": 10 * time.Minute} {
		v := values(t, "minimal")
		v["config"].(map[string]any)["worker"] = map[string]any{"grace": text}
		got := *one[*appsv1.Deployment](t, objects(t, v), "night-aerie-worker").Spec.Template.Spec.TerminationGracePeriodSeconds
		if got != int64(want/time.Second)+30 {
			t.Errorf("%s: %d s, want %v and 30 s", text, got, want)
		}
	}
}

// TestConfigChangeRestarts holds that pods are replaced when aerie.yaml changes, and only then.
func TestConfigChangeRestarts(t *testing.T) {
	sum := func(change func(map[string]any)) string {
		v := values(t, "minimal")
		change(v)
		return one[*appsv1.Deployment](t, objects(t, v), "night-aerie-coordinator").Spec.Template.Annotations["checksum/config"]
	}
	same := sum(func(map[string]any) {})
	if len(same) != 64 || sum(func(v map[string]any) { v["dashboard"] = map[string]any{"enabled": true} }) != same {
		t.Errorf("a dashboard changes %s", same)
	}
	if sum(func(v map[string]any) { v["config"].(map[string]any)["corpus"] = "books" }) == same {
		t.Error("another corpus changes nothing")
	}
}

// TestWorkers holds that one thing sets the number of workers.
func TestWorkers(t *testing.T) {
	replicas := func(set string) *int32 {
		for _, d := range all[*appsv1.Deployment](objects(t, values(t, set))) {
			if strings.HasSuffix(d.Name, "-worker") {
				return d.Spec.Replicas
			}
		}
		t.Fatal("no worker")
		return nil
	}
	if n := replicas("minimal"); n == nil || *n != 2 {
		t.Errorf("minimal: %v", n)
	}
	if n := replicas("off"); n == nil || *n != 0 {
		t.Errorf("off: %v", n)
	}
	if replicas("keda") != nil || replicas("hpa") != nil {
		t.Error("a Deployment sets the number that an autoscaler sets")
	}
	keda := one[*scaledObject](t, objects(t, values(t, "keda")), "night-aerie-worker").Spec
	want := map[string]string{
		"natsServerMonitoringEndpoint": "nats-headless.nats:8222", "account": "$G", "stream": "AERIE_TASKS", "consumer": "workers",
		"lagThreshold": "16", "activationLagThreshold": "0", "useHttps": "false",
	}
	if diff := cmp.Diff(want, keda.Triggers[0].Metadata); diff != "" || keda.Triggers[0].Type != "nats-jetstream" {
		t.Errorf("%s (-want +got)\n%s", keda.Triggers[0].Type, diff)
	}
	if keda.ScaleTargetRef.Name != "night-aerie-worker" || *keda.MinReplicaCount != 0 || *keda.MaxReplicaCount != 40 || keda.Fallback.Behavior != "currentReplicasIfHigher" {
		t.Errorf("%+v", keda)
	}
	hpa := one[*autoscalingv2.HorizontalPodAutoscaler](t, objects(t, values(t, "hpa")), "night-aerie-worker").Spec
	if m := hpa.Metrics[0].Pods; m.Metric.Name != "aerie_worker_busy_slots" || m.Target.AverageValue.MilliValue() != 6400 {
		t.Errorf("%+v", m)
	}
	if *hpa.MinReplicas != 3 || hpa.MaxReplicas != 12 || hpa.ScaleTargetRef.Name != "night-aerie-worker" || *hpa.Behavior.ScaleDown.StabilizationWindowSeconds != 600 {
		t.Errorf("%+v", hpa)
	}
}

// TestNetwork holds what the pods may reach and who may reach them.
func TestNetwork(t *testing.T) {
	ports := func(list []networkingv1.NetworkPolicyPort) (s string) {
		for _, p := range list {
			s += " " + p.Port.String()
		}
		return s
	}
	egress := func(set, name string) (got []string) {
		p := one[*networkingv1.NetworkPolicy](t, objects(t, values(t, set)), name)
		if len(p.Spec.PolicyTypes) != 2 {
			t.Errorf("%s: types %v", set, p.Spec.PolicyTypes)
		}
		for _, rule := range p.Spec.Egress {
			got = append(got, map[bool]string{true: "some", false: "any"}[len(rule.To) > 0]+ports(rule.Ports))
		}
		return got
	}
	for set, want := range map[string][]string{
		"night-aerie-worker minimal":        {"some 53 53", "any 4222", "any 6379", "any 8080 50051"},
		"night-aerie-coordinator keda":      {"some 53 53", "any 4222", "any 6379", "any 8080 50051"},
		"night-nest-worker everything":      {"some 53 53", "some 4222 4223", "some 6379 6380 7000", "some 443 8080 50051", "some 443 8080 8000 8443", "some 4318", "some 3128"},
		"night-nest-coordinator everything": {"some 53 53", "some 4222 4223", "some 6379 6380 7000", "some 443 8080 50051", "some 443 8080 8000 8443", "some 4318", "some 3128"},
	} {
		name, set, _ := strings.Cut(set, " ")
		if diff := cmp.Diff(want, egress(set, name)); diff != "" {
			t.Errorf("%s %s: (-want +got)\n%s", name, set, diff)
		}
	}
	list := objects(t, values(t, "everything"))
	for name, rules := range map[string]int{"night-nest-worker": 1, "night-nest-coordinator": 2} {
		p := one[*networkingv1.NetworkPolicy](t, list, name)
		if len(p.Spec.Ingress) != rules {
			t.Errorf("%s: %d rules of ingress, want %d", name, len(p.Spec.Ingress), rules)
		}
		for _, rule := range p.Spec.Ingress {
			if len(rule.From) == 0 || ports(rule.Ports) != " http" {
				t.Errorf("%s: from %v to%s", name, rule.From, ports(rule.Ports))
			}
		}
	}
	for url, want := range map[string]string{
		"redis://sentinel:26379/main": "any 26379 6379", "redis://redis/3": "any 6379", "rediss://a,b:7000,c:7001": "any 6379 7000 7001",
	} {
		v := values(t, "minimal")
		v["config"].(map[string]any)["state"] = map[string]any{"url": url}
		p := one[*networkingv1.NetworkPolicy](t, objects(t, v), "night-aerie-worker")
		if got := "any" + ports(p.Spec.Egress[2].Ports); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

// TestMonitors holds that metrics are asked for under the names of jobs that the alerts know.
func TestMonitors(t *testing.T) {
	list := objects(t, values(t, "everything"))
	for _, program := range []string{"coordinator", "worker"} {
		e := one[*monitoringv1.ServiceMonitor](t, list, "night-nest-"+program).Spec.Endpoints[0]
		if e.Path != "/metrics" || e.Port != "http" ||
			e.RelabelConfigs[0].TargetLabel != "job" || *e.RelabelConfigs[0].Replacement != "aerie-"+program {
			t.Errorf("%s: %+v", program, e)
		}
	}
}
