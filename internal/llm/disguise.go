package llm

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// longestError is the length in runes up to which a text is taken for an error by its first words. A summary that begins
// so goes on for longer.
const longestError = 240

// isErrorText reports whether an answer is an error in disguise: a JSON object that says what is wrong, or nothing but the
// words of a server, proxy or library. A text that goes on after such words is a text about errors.
func isErrorText(s string) bool {
	s = strings.TrimSpace(s)
	if strings.HasPrefix(s, "{") {
		return isErrorObject(s)
	}
	bare := strings.TrimLeft(s, "*_#>`'\"“[(⚠️❌🚫! \t")
	return utf8.RuneCountInString(s) <= longestError && errorLine.MatchString(bare) || statusLine.MatchString(s)
}

// isErrorObject reports whether a JSON object is about an error: it has one, or nothing but what describes one.
func isErrorObject(s string) bool {
	var o map[string]json.RawMessage
	if json.Unmarshal([]byte(s), &o) != nil {
		return false
	}
	if present(o["error"]) || present(o["errors"]) || scalar(o["object"]) == "error" || scalar(o["type"]) == "error" {
		return true
	}
	if len(s) > 4*longestError || !present(o["detail"]) && !present(o["message"]) && !present(o["msg"]) && !present(o["error_msg"]) && !present(o["err"]) {
		return false
	}
	for name := range o {
		switch name {
		case "detail", "message", "msg", "err", "error_msg", "error_code", "code", "status", "statusCode", "status_code", "type", "success",
			"timestamp", "path", "request_id", "requestId", "trace_id", "param", "loc", "error", "errors", "ok", "data", "result":
		default:
			return false
		}
	}
	return true
}

// statusIn returns the status that an error's text speaks of, or 200.
func statusIn(s string) int {
	if m := statusText.FindStringSubmatch(s[:min(len(s), 400)]); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			return n
		}
	}
	return http.StatusOK
}

var (
	statusText = regexp.MustCompile(`(?i)(?:error code|status(?:[ _]?code)?|http(?:/[0-9.]+)?|error)["']? *[:= ] *["']?([45]\d\d)\b`)
	// statusLine is what client libraries make of a refusal: a status, and the body behind it.
	statusLine = regexp.MustCompile(`(?is)^[*_]{0,2}(?:error:? *[*_]{0,2}:? *)?(?:error code|status(?: code)?): *[45]\d\d\b *[-:,.] *\{.*\}\W*$`)
)

// errorLine is matched against a short text without the marks that lead it.
var errorLine = regexp.MustCompile(`(?is)^(?:` +
	// A label: "ERROR: …", "openai.APIConnectionError: …", "litellm.Timeout: …".
	`(?:fatal |unexpected |internal |unknown |api |llm |model |server )?(?:error|exception|failure)\b(?: *\d{3})?[*_\x60)]*(?:\]| *[:：!-]).*` +
	`|(?:[a-z_]+\.)+[a-z_]*(?:error|exception|timeout|failure)\b *:.*` +
	`|[a-z]*(?:error|exception)(?: *\([^)]*\))?: .*` +
	`|traceback \(most recent call last\).*` +
	// A status.
	`|(?:http(?:/[0-9.]+)? *|error(?: code)?:? *|status(?: code)?:? *)?(?:4(?:0[0-9]|1[0-9]|2[0-9]|31|51|99)|5\d\d)\b(?: *[-:] *\{.*|[a-z :-]{0,40}[.!]?$)` +
	// Limits and accounts.
	`|rate[ _-]?limit(?:s|ed)? *(?:has been |was )?(?:exceeded|reached|error|hit)\b.*` +
	`|(?:you have |you've |you )?(?:exceeded|reached|hit) (?:your|the) [a-z ]*(?:rate|limit|quota).*` +
	`|(?:quota (?:exceeded|reached|exhausted)|insufficient[ _](?:quota|credits?|balance|funds))\b[^.]{0,60}[.!]?$` +
	`|too many (?:concurrent )?requests\b[.!,;:]?(?: *(?:please|try|retry|wait).*)?$` +
	`|(?:invalid|incorrect|missing|expired|no) (?:api|auth(?:entication|orization)?|access)[ _-]?(?:key|token|credentials?)\b.{0,120}$` +
	`|(?:unauthorized|forbidden|access denied|permission denied|authentication (?:failed|required)|not authenticated)\b[^.]{0,80}[.!]?$` +
	// Servers, and what is between.
	`|(?:internal server error|bad gateway|service (?:is )?(?:temporarily |currently )?unavailable|gateway time-?out|upstream .{0,80}|no healthy upstream|bad request|not found|method not allowed|unprocessable entity)[.!]?$` +
	`|(?:the )?(?:server|model|engine|service|system|api|endpoint|backend|worker)s? (?:is|are) (?:currently |temporarily )?(?:overloaded|busy|unavailable|not available|at capacity|loading|not ready|down|offline|not responding)[^.]*[.!]?(?: *(?:please|try).*)?$` +
	`|(?:the )?model\b.{0,80}?\b(?:(?:is |was |has )?not (?:been )?(?:loaded|found|available|ready|supported|exist)|does(?: not|n['’]t) exist|failed to load|is (?:still )?loading)\b.{0,80}$` +
	`|no (?:available |healthy )?(?:model|server|worker|channel|backend|provider|instance|endpoint|gpu)s? (?:is |are |was |were )?(?:loaded|available|found|running|configured)?\b.{0,60}$` +
	`|(?:the |your )?(?:request|connection|operation|call|read|write|connect|socket|generation|inference|task|upstream|query|response|stream|completion|prompt)s? ?(?:has |have |was |were |is )?(?:timed? ?-?out|timeout|cancel{1,2}ed|aborted|refused|reset(?: by peer)?|closed(?: unexpectedly)?|terminated|interrupted|failed|rejected|error|lost|dropped|exceeded)\b(?:(?: (?:after|by|while|due|because|to|with|at|from|on|for)\b|[:,(—-])[^.]{0,80})?[.!]?(?: *(?:please|try|retry).*)?$` +
	`|(?:read |connect |gateway |connection )?time(?:d )?-?out\b(?: (?:error|exceeded|of|after|waiting|while)\b.{0,60})?[.!]?$` +
	`|(?:context )?deadline exceeded\b.{0,40}$` +
	`|(?:cuda|hip|rocm|gpu|mps|metal|vulkan|torch|device)\b.{0,40}?\b(?:out of memory|error|oom)\b.{0,200}$` +
	`|(?:out of|insufficient|not enough) (?:gpu |system |device |video )?memory\b.{0,120}$` +
	`|max(?:imum)? (?:number of )?(?:retries|attempts|context length) (?:was |were )?(?:exceeded|reached)\b.{0,160}$` +
	`|(?:failed|unable|could not|couldn['’]t|cannot|can['’]t) (?:to )?(?:connect|reach|generate|fetch|load|parse|process|complete|allocate|create|get|obtain|call|retrieve|decode)\b.{0,30}?\b(?:to|a|the|response|model|server|request|completion|answer|output|memory|host|api|endpoint|tokens?)\b.{0,120}$` +
	`|(?:an? |the )?(?:unexpected |unknown |internal |server )*(?:error|exception) (?:has )?(?:occurred|happened|while|during|in|from|processing|generating)\b.{0,160}$` +
	`|(?:oops|sorry|whoops)?[!,. ]*something went wrong\b.{0,120}$` +
	`|(?:broken pipe|unexpected eof|eof|segmentation fault|name or service not known|connection pool .{0,80}|ssl.{0,80}|certificate .{0,60})[.!]?$` +
	// The same in Chinese and Japanese.
	`|(?:错误|發生錯誤|发生错误|出错了|请求(?:失败|超时|错误|过于频繁)|连接(?:失败|超时|错误)|网络(?:错误|异常|超时)|服务器?(?:繁忙|不可用|错误|异常)|内部(?:服务器)?错误|模型(?:未加载|不存在|不可用|加载中)|余额不足|额度(?:不足|已用完)|エラー).{0,60}$` +
	`)|^<(?:!doctype )?html.*`)
