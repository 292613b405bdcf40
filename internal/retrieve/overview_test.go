package retrieve

import "testing"

func TestBroad(t *testing.T) {
	for _, query := range []string{
		"What is this corpus about overall?", "what is this about", "What are these documents about?", "Which topics are covered?", "What are the main themes?",
		"Summarize the documents.", "Give me an overview of the whole corpus", "overview", "What topics does this collection cover?", "Tell me about these documents",
		"What can I find here?", "What is in this corpus?", "What are the key takeaways?", "What does the corpus contain?", "summarize everything", "这些文档主要讲什么？",
	} {
		if !Broad(query) {
			t.Errorf("%q isn't taken for one about the whole", query)
		}
	}
	for _, query := range []string{
		"What is PEP 8 about?", "What are the main themes of Hamlet?", "What is dementia about", "Which topics does the parser skip?", "Give me a summary of PEP 20",
		"How is the overview made?", "Summarize the treatment of stage II melanoma", "What are the symptoms?", "What does the document say about chemotherapy?", "who wrote this",
		"What is this error about: EOF?",
	} {
		if Broad(query) {
			t.Errorf("%q is taken for one about the whole", query)
		}
	}
}
