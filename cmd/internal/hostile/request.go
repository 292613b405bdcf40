package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// request is what goes over the wire, as it stands.
type request struct {
	name string
	head []byte
	body []byte
}

// slow is a request whose rest comes byte by byte, or whose answer nobody takes.
type slow struct {
	name  string
	head  []byte
	drip  []byte
	pause time.Duration
	deaf  bool
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// size draws a number of bytes up to a bound, small ones as often as large ones.
func size(r *rand.Rand, most int) int {
	n := 1
	for n < most && r.IntN(8) > 0 {
		n *= 2 + r.IntN(3)
	}
	return min(n, most)
}

func junk(r *rand.Rand, n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(r.Uint32())
	}
	return out
}

// drawRequest draws a request.
func drawRequest(r *rand.Rand) request {
	switch r.IntN(10) {
	case 0, 1, 2:
		return drawPath(r)
	case 3, 4:
		return drawHead(r)
	case 5, 6:
		return drawJSON(r)
	}
	return drawLines(r)
}

// drawPath draws a path that isn't one, or names what is not there. None of them is the canonical path of something in the corpus good.
func drawPath(r *rand.Rand) request {
	parts := []string{"..", ".", "", "%2e%2e", "%2E", "%2f", "%00", "%0d%0aX:1", "documents", "builds", "good", "v1", "corpora", "%c0%ae%c0%ae", "\xff", "{corpus}", "*", "~", ";", strings.Repeat("a", size(r, 30_000))}
	path := pick(r, "/v1/corpora/good/documents/", "/v1/corpora/good/builds/", "/v1/corpora/good/", "/v1/corpora/", "/v1/", "//v1/corpora/good", "/x/../v1/corpora/good/", "/")
	for range 1 + r.IntN(6) {
		path += pick(r, parts...) + pick(r, "/", "/", "%2F", "\\", "//")
	}
	path += pick(r, "..", ".", "%2e%2e", "", "x/..")
	if r.IntN(3) == 0 {
		path += "?" + pick(r, "cursor=", "limit=", "root=", "prefix=", "%zz=", "=&&;") + pick(r, parts...)
	}
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", pick(r, "DELETE", "DELETE", "POST", "GET", "PUT", "PATCH", "OPTIONS"), path)
	return request{name: "path", head: []byte(head)}
}

// drawHead draws a head that is wrong or too much.
func drawHead(r *rand.Rand) request {
	var b bytes.Buffer
	line := pick(r, "GET /v1/status HTTP/1.1", "GET /v1/status HTTP/9.9", "GET  /v1/status HTTP/1.1", "FOO /v1/status HTTP/1.1", "GET http://evil.example/v1/status HTTP/1.1", "CONNECT /v1/corpora/good HTTP/1.1", "PRI * HTTP/2.0",
		"GET /v1/status", string(junk(r, size(r, 4096))), "POST /v1/corpora/evil/documents HTTP/1.1")
	b.WriteString(line + "\r\n")
	if r.IntN(8) > 0 {
		b.WriteString("Host: " + pick(r, "127.0.0.1", "localhost", "evil.example", "127.0.0.1.evil.example", "[::1", strings.Repeat("h", size(r, 40_000))) + "\r\n")
	}
	for range r.IntN(4) {
		b.WriteString(pick(r,
			"Content-Length: -1", "Content-Length: 99999999999999999999", "Content-Length: 5\r\nContent-Length: 6", "Transfer-Encoding: chunked\r\nContent-Length: 4", "Transfer-Encoding: xchunked", "Content-Encoding: gzip", "Expect: 100-continue",
			"Expect: 200-nothing", "Upgrade: websocket\r\nConnection: upgrade", "Origin: https://evil.example", "Sec-Fetch-Site: cross-site", "Authorization: Bearer "+strings.Repeat("x", size(r, 50_000)), "Accept: "+strings.Repeat("application/x-ndjson,", size(r, 2000)),
			"X: "+strings.Repeat("y", size(r, 200_000)), strings.Repeat("Z: z\r\n", size(r, 20_000))+"Z: z", " folded: x", "No-Colon", "Idempotency-Key: "+strings.Repeat("k", size(r, 10_000)), "Last-Event-ID: \x00\x01") + "\r\n")
	}
	b.WriteString("Connection: close\r\n\r\n")
	return request{name: "head", head: b.Bytes(), body: []byte(pick(r, "", "0\r\n\r\n", "ffffffffffffffff\r\nx", "5\r\nhel", "{}"))}
}

// post frames a body, with its length, in chunks, or with a length that is wrong.
func post(r *rand.Rand, name, path, kind string, body []byte, headers ...string) request {
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: %s\r\nConnection: close\r\n", path, kind)
	for _, h := range headers {
		head += h + "\r\n"
	}
	if r.IntN(4) == 0 {
		body = append(append([]byte(fmt.Sprintf("%x\r\n", len(body))), body...), "\r\n0\r\n\r\n"...)
		return request{name: name, head: []byte(head + "Transfer-Encoding: chunked\r\n\r\n"), body: body}
	}
	return request{name: name, head: []byte(head + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body))), body: body}
}

// value draws JSON that nests, repeats or lies.
func value(r *rand.Rand) string {
	n := size(r, 1<<20)
	switch r.IntN(8) {
	case 0:
		return strings.Repeat("[", n) + strings.Repeat("]", n)
	case 1:
		return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n)
	case 2:
		return "[" + strings.Repeat("[],", n) + "[]]"
	case 3:
		return strings.Repeat("9", n) + pick(r, "", "e999999999", ".5")
	case 4:
		return `"` + strings.Repeat(pick(r, `\u0000`, `\ud800`, "\xff", `\u202e`, "é"), n/2+1) + `"`
	case 5:
		return pick(r, "null", "true", "-0", "1e400", "NaN", "{}", "[]", `""`)
	case 6:
		return "{" + strings.Repeat(`"k":1,`, n) + `"k":2}`
	}
	return string(junk(r, min(n, 100_000)))
}

func drawJSON(r *rand.Rand) request {
	path := "/v1/corpora/" + pick(r, "good/query", "good/ask", "good/nodes/texts", "good/documents/delete", "evil/builds", "evil/retry", "evil/builds/x/pause", "good/plan")
	field := pick(r, "query", "vector", "metadata", "documents", "budget", "ids", "pool", "min_level", "max_tokens", "cause", "mode")
	body := fmt.Sprintf(`{"query":"owls",%q:%s}`, field+pick(r, "", "", "", "x"), value(r))
	if strings.Contains(path, "delete") {
		body = fmt.Sprintf(`{"documents":["no such document",%s]}`, value(r))
	}
	if r.IntN(5) == 0 {
		body = value(r)
	}
	return post(r, "json", path, pick(r, "application/json", "application/json", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json; charset=utf-16"), []byte(body))
}

// page draws a page whose tree is far larger than its bytes.
func page(r *rand.Rand) string {
	n := size(r, 4<<20)
	switch r.IntN(7) {
	case 0:
		return strings.Repeat("<br>", n)
	case 1:
		return strings.Repeat("<div>", n) + "x"
	case 2:
		return strings.Repeat("<b><i><p>", n/2+1)
	case 3:
		var b strings.Builder
		for i := range min(n, 400) {
			fmt.Fprintf(&b, "<font id=%d>", i)
		}
		return "<p>" + b.String() + "</p>" + strings.Repeat("<p>x</p>", n)
	case 4:
		var b strings.Builder
		b.WriteString("<p ")
		for i := range min(n, 1<<20) {
			fmt.Fprintf(&b, "a%d ", i)
		}
		return b.String() + ">x"
	case 5:
		return "<table>" + strings.Repeat("<td>x<table>", n/4+1)
	}
	return "<script>" + strings.Repeat("<!--", n) + "&#x110000;" + strings.Repeat("&amp", n)
}

// text draws a text that is hard to cut.
func text(r *rand.Rand) string {
	n := size(r, 8<<20)
	return strings.Repeat(pick(r, "a\n", "- \n", "x", "é", "\u200b", "# \n", "| a | b |\n", "```\n", ". ", "a. ", "\u202e\u0301", "\n", " "), n/2+1)
}

// quoted writes a text as a JSON string, in as few bytes as may be.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s) + `"`
}

// line draws one line of an ingest.
func line(r *rand.Rand) string {
	id := pick(r, "x", "..", ".", "a/../b", `\u0000`, `\u001b[31m`, "_corpus", strings.Repeat("i", size(r, 10_000)), `\ud800`)
	switch r.IntN(9) {
	case 0, 1:
		return fmt.Sprintf(`{"document":{"id":"%s","format":"html","text":%s}}`, id, quoted(page(r)))
	case 2, 3:
		return fmt.Sprintf(`{"document":{"id":"%s","text":%s}}`, id, quoted(text(r)))
	case 4:
		return fmt.Sprintf(`{"id":"%s","text":"t","embedding":[%s1]}`, id, strings.Repeat(pick(r, "1,", "0,", "1e38,", "NaN,", "-1e999,"), size(r, 1<<20)))
	case 5:
		return fmt.Sprintf(`{"id":"%s","text":%s,"m":%s}`, id, quoted(text(r)), value(r))
	case 6:
		return `{"id":"a","text":"b"}` + pick(r, "\x00", "}", `{"id":"c","text":"d"}`, "\xff") + `{"id":"e","text":"f"}`
	case 7:
		return pick(r, `{"source":{"name":"x","line":-5}}`, `{"vectors":{"of":"v","width":99999999}}`, `{"vector":{"values":"AAAA"}}`, `{"end":{}}`, `{"problem":{"source":"\u001b]0;x","line":1,"error":"e"}}`, `{"skip":{"reason":"r"}}`, `{"document":[]}`)
	}
	return value(r)
}

func drawLines(r *rand.Rand) request {
	var b strings.Builder
	for range 1 + r.IntN(3) {
		b.WriteString(line(r) + pick(r, "\n", "\n", "\r\n", "\r", ""))
		if b.Len() > 40<<20 {
			break
		}
	}
	body, headers := []byte(b.String()), []string{}
	switch r.IntN(10) {
	case 0:
		units := utf16.Encode([]rune(b.String()[:min(b.Len(), 1<<20)]))
		body = []byte{0xff, 0xfe}
		for _, u := range units {
			body = binary.LittleEndian.AppendUint16(body, u)
		}
	case 1:
		body, headers = packed(r, size(r, 64<<20)), []string{"Content-Encoding: " + pick(r, "gzip", "zstd", "br")}
	}
	return post(r, "lines", "/v1/corpora/evil/documents"+pick(r, "", "", "?chunk_tokens=8", "?chunk_tokens=8192"), "application/x-ndjson", body, headers...)
}

// packed draws a bomb: so many bytes that unpack to far more.
func packed(r *rand.Rand, n int) []byte {
	var out bytes.Buffer
	block := bytes.Repeat([]byte(pick(r, "\x00", "a\n", "<br>", `{"id":"a","text":"b"}`+"\n")), 1<<14)
	if r.IntN(2) == 0 {
		z := gzip.NewWriter(&out)
		for done := 0; done < n; done += len(block) {
			_, _ = z.Write(block) // to memory
		}
		_ = z.Close()
	} else {
		z, err := zstd.NewWriter(&out, zstd.WithWindowSize(pick(r, 1<<20, 8<<20, 128<<20)), zstd.WithEncoderConcurrency(1))
		if err != nil {
			panic(err)
		}
		for done := 0; done < n; done += len(block) {
			_, _ = z.Write(block)
		}
		_ = z.Close()
	}
	data := out.Bytes()
	if r.IntN(3) == 0 {
		data = data[:r.IntN(len(data))]
	}
	return data
}

// drawSlow draws a client that takes its time.
func drawSlow(r *rand.Rand) slow {
	const host = "Host: 127.0.0.1\r\n"
	pause := time.Duration(5+r.IntN(400)) * time.Millisecond
	switch r.IntN(5) {
	case 0:
		return slow{name: "slow head", head: []byte("GET /v1/status HTTP/1.1\r\n" + host + "X: "), drip: bytes.Repeat([]byte("x"), 1000), pause: pause}
	case 1:
		return slow{name: "slow lines", head: []byte("POST /v1/corpora/slow/documents HTTP/1.1\r\n" + host + "Content-Type: application/x-ndjson\r\nContent-Length: 1000000\r\n\r\n"), drip: bytes.Repeat([]byte(`{"id":"a"`), 200), pause: pause}
	case 2:
		return slow{name: "slow json", head: []byte("POST /v1/corpora/good/query HTTP/1.1\r\n" + host + "Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n"), drip: bytes.Repeat([]byte(" "), 2000), pause: pause}
	case 3:
		return slow{name: "slow refused", head: []byte("POST /v1/nothing HTTP/1.1\r\n" + host + "Content-Length: 100000\r\n\r\n"), drip: bytes.Repeat([]byte(" "), 2000), pause: pause}
	}
	return slow{name: "deaf", head: []byte("GET /v1/corpora/good/nodes HTTP/1.1\r\n" + host + "Accept: application/x-ndjson\r\n\r\n"), drip: bytes.Repeat([]byte("\n"), 10), pause: pause, deaf: true}
}
