package deploy_test

import (
	"fmt"
	"slices"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// scaledObject is KEDA's custom resource, as far as the chart uses it: a field that isn't here is refused like one that
// isn't in its definition. KEDA's own type comes with all of its scalers.
type scaledObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		ScaleTargetRef  struct{ APIVersion, Kind, Name string } `json:"scaleTargetRef"`
		PollingInterval *int32                                  `json:"pollingInterval"`
		CooldownPeriod  *int32                                  `json:"cooldownPeriod"`
		MinReplicaCount *int32                                  `json:"minReplicaCount"`
		MaxReplicaCount *int32                                  `json:"maxReplicaCount"`
		Fallback        struct {
			FailureThreshold int32  `json:"failureThreshold"`
			Replicas         int32  `json:"replicas"`
			Behavior         string `json:"behavior"`
		} `json:"fallback"`
		Advanced struct {
			HorizontalPodAutoscalerConfig struct {
				Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior"`
			} `json:"horizontalPodAutoscalerConfig"`
		} `json:"advanced"`
		Triggers []struct {
			Type     string            `json:"type"`
			Metadata map[string]string `json:"metadata"`
		} `json:"triggers"`
	} `json:"spec"`
}

// alertRule is one alert of a file that Prometheus reads.
type alertRule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

type ruleFile struct {
	Groups []struct {
		Name  string      `json:"name"`
		Rules []alertRule `json:"rules"`
	} `json:"groups"`
}

func (f ruleFile) alerts() []alertRule {
	var all []alertRule
	for _, g := range f.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// kinds makes the type of each kind of manifest.
var kinds = map[string]func() metav1.Object{
	"v1/ConfigMap":                            func() metav1.Object { return new(corev1.ConfigMap) },
	"v1/Service":                              func() metav1.Object { return new(corev1.Service) },
	"v1/ServiceAccount":                       func() metav1.Object { return new(corev1.ServiceAccount) },
	"apps/v1/Deployment":                      func() metav1.Object { return new(appsv1.Deployment) },
	"policy/v1/PodDisruptionBudget":           func() metav1.Object { return new(policyv1.PodDisruptionBudget) },
	"networking.k8s.io/v1/NetworkPolicy":      func() metav1.Object { return new(networkingv1.NetworkPolicy) },
	"autoscaling/v2/HorizontalPodAutoscaler":  func() metav1.Object { return new(autoscalingv2.HorizontalPodAutoscaler) },
	"keda.sh/v1alpha1/ScaledObject":           func() metav1.Object { return new(scaledObject) },
	"monitoring.coreos.com/v1/ServiceMonitor": func() metav1.Object { return new(monitoringv1.ServiceMonitor) },
	"monitoring.coreos.com/v1/PrometheusRule": func() metav1.Object { return new(monitoringv1.PrometheusRule) },
}

// objects renders a set of values and decodes every manifest strictly: an unknown or doubled field is an error.
func objects(t *testing.T, values map[string]any) []metav1.Object {
	t.Helper()
	var list []metav1.Object
	for _, text := range manifests(t, values) {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(text), &kind); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		make, ok := kinds[kind.APIVersion+"/"+kind.Kind]
		if !ok {
			t.Fatalf("%s/%s is no kind that is known here:\n%s", kind.APIVersion, kind.Kind, text)
		}
		o := make()
		if err := yaml.UnmarshalStrict([]byte(text), o); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		list = append(list, o)
	}
	return list
}

// all returns the objects of one type.
func all[T metav1.Object](objects []metav1.Object) []T {
	var list []T
	for _, o := range objects {
		if v, ok := o.(T); ok {
			list = append(list, v)
		}
	}
	return list
}

// one returns the object of a type and a name's end.
func one[T metav1.Object](t *testing.T, objects []metav1.Object, name string) T {
	t.Helper()
	list := all[T](objects)
	i := slices.IndexFunc(list, func(o T) bool { return o.GetName() == name })
	if i < 0 {
		var names []string
		for _, o := range list {
			names = append(names, o.GetName())
		}
		var none T
		t.Fatalf("no %T is called %s; there are %v", none, name, names)
	}
	return list[i]
}

// TestKinds holds which manifests each set of values gives.
func TestKinds(t *testing.T) {
	count := func(n map[string]int) string { return fmt.Sprint(n) }
	base := map[string]int{"ConfigMap": 1, "Deployment": 2, "NetworkPolicy": 2, "PodDisruptionBudget": 2, "Service": 2, "ServiceAccount": 1}
	with := func(more map[string]int) map[string]int {
		n := map[string]int{}
		for k, v := range base {
			n[k] = v
		}
		for k, v := range more {
			n[k] += v
		}
		return n
	}
	for set, want := range map[string]map[string]int{
		"minimal":    base,
		"keda":       with(map[string]int{"ScaledObject": 1}),
		"hpa":        with(map[string]int{"HorizontalPodAutoscaler": 1}),
		"everything": with(map[string]int{"ScaledObject": 1, "ServiceMonitor": 2, "PrometheusRule": 1, "ConfigMap": 1}),
		"off":        {"ConfigMap": 1, "Deployment": 2, "Service": 2},
	} {
		got := map[string]int{}
		names := map[string]bool{}
		for _, text := range manifests(t, values(t, set)) {
			var m struct {
				Kind     string
				Metadata struct{ Name string }
			}
			if err := yaml.Unmarshal([]byte(text), &m); err != nil {
				t.Fatal(err)
			}
			got[m.Kind]++
			if id := m.Kind + "/" + m.Metadata.Name; names[id] {
				t.Errorf("%s: %s stands there twice", set, id)
			} else {
				names[id] = true
			}
		}
		if count(got) != count(want) {
			t.Errorf("%s: got %v, want %v", set, got, want)
		}
	}
}
