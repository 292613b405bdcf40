package main

import (
	"testing"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/llm/llmtest"
)

// TestSeeds5 (Seeds 5): a model that thinks for 1,000 tokens before each answer makes a tree under the defaults; once that is learned,
// which each of the slots may do once, hardly a call is wasted.
func TestSeeds5(t *testing.T) {
	fixtures := fresh(t)
	s := llmtest.New(llmtest.Config{Reasons: 1000})
	defer s.Close()
	aerie(t, "ingest", fixtures).want(t, exitDone)
	report := decode[api.BuildReport](t, aerie(t, "build", "--clustering.max_cluster_tokens", "300", "--summaries.provider", "openai",
		"--summaries.base_url", s.URL(), "--summaries.model", "qwen3:8b", "-o", "json").want(t, exitDone))
	if report.Outcome != api.OutcomeBuilt || len(report.Buried) > 0 {
		t.Fatalf("%+v", report)
	}
	const slots = 8 // by default
	n := s.Counts()
	if n.ChatOK < 3*slots || float64(n.Chat-2*slots) > 1.1*float64(n.ChatOK) {
		t.Errorf("%d calls for %d answers", n.Chat, n.ChatOK)
	}
	t.Logf("%d calls for %d answers", n.Chat, n.ChatOK)
}
