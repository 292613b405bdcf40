package llm

import "testing"

// TestB16ErrorsAsAnswers: an error that comes as an answer never becomes a summary. FAULTS2 B16 (infiniflow/ragflow 1616).
func TestB16ErrorsAsAnswers(t *testing.T) {
	for _, text := range []string{
		"**ERROR**: Connection error.", "Error code: 401 - {'error': {'message': 'Invalid key'}}", "Request timed out.",
		"CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 23.69 GiB total capacity)", "You exceeded your current quota, please check your plan and billing details.",
		`{"detail":"Model not loaded"}`, "null", "None", "undefined", "openai.APIConnectionError: Connection error.", "Error: fetch failed",
		"litellm.Timeout: APITimeoutError - Request timed out.", "Connection refused", "Internal Server Error", "502 Bad Gateway", "⚠️ Error: something broke",
		"upstream connect error or disconnect/reset before headers", "The model `gpt-5` does not exist or you do not have access to it.",
		"model not found, try pulling it first", "Service Unavailable", "An error occurred while processing your request.", "Oops! Something went wrong.",
		"Failed to generate a response.", "context deadline exceeded", "No available channel for this model", "Rate limit exceeded", "Too many requests, please try again later.",
		"Unauthorized", "Invalid API key provided.", `{"message":"Endpoint request timed out"}`, `{"code":500,"msg":"internal error","data":null}`, "请求超时", "服务器繁忙，请稍后再试。",
		"Traceback (most recent call last):\n  File \"x.py\", line 1", "RuntimeError: CUDA error: device-side assert triggered", "<html><body>502</body></html>",
		"[ERROR] backend exploded",
	} {
		if !isErrorText(text) && examine(&Reply{Text: text, Finish: "stop"}, nil) == "" {
			t.Errorf("%q became a summary", text)
		}
	}
	for _, text := range []string{
		"Error codes are listed in appendix B, and each has a cure.", "Timeouts are set by the option request_timeout.",
		"The request is cancelled when its context ends.", "Connections are closed after a minute of silence.", "Null is a value of every type.",
		"404 is the status of a page that isn't there, and 500 that of a server that failed.", "Errors in the ledger were found by the auditors.",
		"The model is loaded into memory at the start.", "Exceptions to the rule are named in section 4.", "A service that is unavailable answers with 503.",
		"The user may cancel at any time.", "Quota samples are drawn by region.", "Permission is given by the owner of the file.",
		`The reply is {"error": "none"} when all is well.`,
	} {
		r := Reply{Text: text, Finish: "stop"}
		if reason := examine(&r, nil); isErrorText(text) || reason != "" || r.Text != text {
			t.Errorf("%q was refused: %s", text, reason)
		}
	}
}
