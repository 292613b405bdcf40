package natsqueue

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/aerie-rag/aerie/internal/queue/queuetest"
	"github.com/aerie-rag/aerie/internal/tree"
)

func TestToken(t *testing.T) {
	for name, want := range map[string]string{
		"corpus": "corpus", "A-b_9": "A-b_9", "a.b": "a=2eb", "*": "=2a", ">": "=3e", " ": "=20", "=": "=3d", "é": "=c3=a9", "$": "=24",
	} {
		if got := token(name); got != want {
			t.Errorf("token(%q): got %q, want %q", name, got, want)
		}
	}
}

// untoken reads what token wrote.
func untoken(tok string) (string, error) {
	var b []byte
	for i := 0; i < len(tok); i++ {
		switch c := tok[i]; {
		case plainByte(c):
			b = append(b, c)
		case c == '=' && i+2 < len(tok):
			raw, err := hex.DecodeString(tok[i+1 : i+3])
			if err != nil {
				return "", fmt.Errorf("natsqueue: %q is not a name in a subject", tok)
			}
			b = append(b, raw[0])
			i += 2
		default:
			return "", fmt.Errorf("natsqueue: %q is not a name in a subject", tok)
		}
	}
	return string(b), nil
}

// FuzzToken: a token is safe in a subject, and names that differ have tokens that differ.
func FuzzToken(f *testing.F) {
	for _, name := range []string{"", "corpus", "a.b c*>", "日本語", "=2e", "\x00\xff"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		tok := token(name)
		if strings.ContainsAny(tok, ".*> \t\r\n\x00$") {
			t.Errorf("token(%q) = %q is not safe in a subject", name, tok)
		}
		back, err := untoken(tok)
		if err != nil || back != name {
			t.Errorf("token(%q) = %q reads back as %q, error %v", name, tok, back, err)
		}
	})
}

func TestSubject(t *testing.T) {
	task := queuetest.Tasks("my corpus", "b1", 12, 1)[0]
	want := "aerie.task.my=20corpus.b1.12." + task.ID.String()
	if got := subjectOf(taskPrefix, &task); got != want {
		t.Errorf("subject: got %q, want %q", got, want)
	}
	if id, err := subjectID(want); err != nil || id != task.ID {
		t.Errorf("id of the subject: got %v, error %v", id, err)
	}
	if got, want := levelSubject(deadPrefix, tree.Level{Corpus: "c", Build: "b", Level: 1}), "aerie.dead.c.b.1."; got != want {
		t.Errorf("level: got %q, want %q", got, want)
	}
}

func TestNamesThatAreTooLong(t *testing.T) {
	task := queuetest.Tasks("corpus", "build", 1, 1)[0]
	task.Corpus = strings.Repeat("x", maxNameBytes)
	if err := checkTask(&task); err != nil {
		t.Error(err)
	}
	task.Corpus += "x"
	if err := checkTask(&task); err == nil || !strings.Contains(err.Error(), "corpus") {
		t.Errorf("got error %v, want one about the corpus", err)
	}
}

// TestSequence uses the ack subjects of nats-server's ADR-15: without and with a domain, without and with a token at
// the end.
func TestSequence(t *testing.T) {
	for reply, want := range map[string]uint64{
		"$JS.ACK.AERIE_TASKS.workers.3.41.77.1700000000000000000.5":            41,
		"$JS.ACK._.hash.AERIE_TASKS.workers.3.41.77.1700000000000000000.5":     41,
		"$JS.ACK.hub.hash.AERIE_TASKS.workers.3.41.77.1700000000000000000.5.x": 41,
	} {
		got, err := sequence(reply)
		if err != nil || got != want {
			t.Errorf("sequence(%q): got %d, error %v; want %d", reply, got, err, want)
		}
	}
	for _, reply := range []string{"", "_INBOX.abc", "$JS.ACK.a.b.c", "$JS.ACK.AERIE_TASKS.workers.3.x.77.1.5"} {
		if got, err := sequence(reply); err == nil {
			t.Errorf("sequence(%q): got %d, want an error", reply, got)
		}
	}
}

func TestTruncate(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"short", 5, "short"}, {"longer", 4, "long…"}, {"aé", 2, "a…"}, {"", 0, ""}, {"日本", 4, "日…"},
	} {
		if got := truncate(c.text, c.n); got != c.want {
			t.Errorf("truncate(%q, %d): got %q, want %q", c.text, c.n, got, c.want)
		}
	}
}

// FuzzDecodeTask: whatever stands in a message, what comes out is a task that belongs to its subject.
func FuzzDecodeTask(f *testing.F) {
	task := queuetest.Tasks("my corpus", "build", 1, 1)[0]
	msg, err := taskMsg(&task)
	if err != nil {
		f.Fatal(err)
	}
	const reply = "$JS.ACK.AERIE_TASKS.workers.1.41.77.1700000000000000000.5"
	f.Add(msg.Subject, reply, msg.Data)
	f.Add("", "", []byte("{}"))
	f.Add(msg.Subject, "$JS.ACK", []byte(`{"corpus":"c","level":-1}`))
	f.Fuzz(func(t *testing.T, subject, reply string, data []byte) {
		task, seq, err := decodeTask(&nats.Msg{Subject: subject, Reply: reply, Data: data})
		if err != nil {
			return
		}
		again, err := taskMsg(&task)
		if err != nil {
			return // larger than a task may be
		}
		if again.Subject != subject || task.Level < 1 || task.ID.IsZero() {
			t.Errorf("subject %q gives task %+v, number %d", subject, task, seq)
		}
	})
}
