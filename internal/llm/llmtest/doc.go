// Package llmtest is an OpenAI-compatible endpoint for tests: /v1/chat/completions, /v1/embeddings and /v1/models. It
// answers like a small, honest model, and fails as real ones do, at the rates it is told.
//
//	s := llmtest.New(llmtest.Config{ContextTokens: 4096, Latency: 100 * time.Millisecond, Faults: llmtest.AllFaults(0.02)})
//	defer s.Close()
//	cfg.BaseURL = s.URL() // http://127.0.0.1:PORT/v1
//	…
//	if n := s.Counts().Violations; n > 0 { … }
//
// # Answers
//
// A summary is a pure function of the prompt: the beginnings of its sentences, as many words as fit into max_tokens. A
// vector is a pure function of its text: hashed words. So two builds of the same corpus get the same tree, whatever
// failed on the way.
//
// # Faults
//
// Whether a call fails, and how, is decided by the seed and by how often this same request has been made before, not by
// the order in which requests come in: with the same seed the same requests fail, however many are under way at a time. A
// request that is made again gets a new chance.
//
// # As a program
//
// The Server is an http.Handler; [New] serves it on a port of 127.0.0.1, [NewHandler] leaves that to the caller.
package llmtest
