package deploy_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// TestConsumerThatIsMissing: KEDA that finds no consumer, or no NATS, must not scale to the maximum
// (kedacore/keda#7657) and must not shrink a fleet at work.
func TestConsumerThatIsMissing(t *testing.T) {
	for _, set := range []string{"keda", "everything"} {
		for _, o := range all[*scaledObject](objects(t, values(t, set))) {
			f := o.Spec.Fallback
			if f.Behavior != "currentReplicasIfHigher" || f.FailureThreshold < 1 || f.Replicas >= *o.Spec.MaxReplicaCount {
				t.Errorf("%s: fallback %+v of at most %d workers", set, f, *o.Spec.MaxReplicaCount)
			}
		}
	}
}

// TestShrinkingSparesWork: an autoscaler takes away any pod, a busy one too (kedacore/keda#6719, #2901). It may take few
// at a time, and each has its grace to finish or give back.
func TestShrinkingSparesWork(t *testing.T) {
	for _, set := range []string{"keda", "hpa"} {
		list := objects(t, values(t, set))
		var down *autoscalingv2.HPAScalingRules
		for _, o := range all[*scaledObject](list) {
			down = o.Spec.Advanced.HorizontalPodAutoscalerConfig.Behavior.ScaleDown
		}
		for _, o := range all[*autoscalingv2.HorizontalPodAutoscaler](list) {
			down = o.Spec.Behavior.ScaleDown
		}
		if down == nil || len(down.Policies) != 1 {
			t.Fatalf("%s: scales down by %+v", set, down)
		}
		p := down.Policies[0]
		cfg, _ := load(t, values(t, set))
		grace := *one[*appsv1.Deployment](t, list, "night-aerie-worker").Spec.Template.Spec.TerminationGracePeriodSeconds
		if p.Type != autoscalingv2.PercentScalingPolicy || p.Value > 10 || *down.SelectPolicy != autoscalingv2.MinChangePolicySelect || *down.StabilizationWindowSeconds < 300 {
			t.Errorf("%s: %+v", set, down)
		}
		if int64(p.PeriodSeconds) < grace || grace <= int64(cfg.Worker.Grace.Seconds()) {
			t.Errorf("%s: every %d s a tenth goes, each with %d s to end and %v to finish", set, p.PeriodSeconds, grace, cfg.Worker.Grace)
		}
	}
}
