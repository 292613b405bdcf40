package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// childHome names the home that a child process writes to until it is killed. It is set in children only.
const childHome = "AERIE_SQLITE_TEST_HOME"

var crashLevel = tree.Level{Corpus: "crash", Build: "b", Level: 1}

const crashTotal = 100_000

// TestKilledProcesses kills two processes that write to one home, at random moments, again and again. Whatever they
// reported as written must be there afterwards, in every table, in the keyword index and in the sidecar, and nothing
// else by halves.
func TestKilledProcesses(t *testing.T) {
	home := t.TempDir()
	db, err := Open(home, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Barrier().Open(t.Context(), crashLevel, "digest", crashTotal); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	var log crashLog
	for round := range 6 {
		a, b := startChild(t, home, 2*round), startChild(t, home, 2*round+1)
		for _, c := range []*child{a, b} {
			log.read(c, 1+random.IntN(60))
			if err := c.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			log.read(c, -1)
			c.cmd.Wait() // it was killed; how it ended says nothing
		}
		checkHome(t, home, &log)
	}
	if len(log.kept) < 200 || len(log.gone) == 0 || len(log.marked) == 0 {
		t.Errorf("the children only wrote %d texts, deleted %d and marked %d times", len(log.kept), len(log.gone), len(log.marked))
	}
}

// child is a process that writes, and prints a line for each write once it is done.
type child struct {
	cmd *exec.Cmd
	out *bufio.Reader
}

func startChild(t *testing.T, home string, number int) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childHome+"="+home, "AERIE_SQLITE_TEST_CHILD="+strconv.Itoa(number))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &child{cmd: cmd, out: bufio.NewReader(out)}
}

// crashLog is what children have reported.
type crashLog struct {
	kept, gone []string // texts
	marked     []int
}

// read reads n lines, or all that is left if n < 0. A line that was cut off reports nothing.
func (l *crashLog) read(c *child, n int) {
	for ; n != 0; n-- {
		line, err := c.out.ReadString('\n')
		if err != nil {
			return
		}
		kind, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch kind {
		case "put":
			l.kept = append(l.kept, rest)
		case "deleted":
			l.gone = append(l.gone, rest)
			l.kept = slices.DeleteFunc(l.kept, func(s string) bool { return s == rest })
		case "marked":
			p, _ := strconv.Atoi(rest)
			l.marked = append(l.marked, p)
		default:
			panic("child says " + line)
		}
	}
}

// crashLeaf is leaf number i of a child: its text names it, and all else follows from the text.
func crashLeaf(document string, i int) tree.Node {
	text := fmt.Sprintf("common %s x%d", document, i)
	r := rand.New(rand.NewPCG(uint64(len(document)*1_000_003+i), uint64(document[len(document)-1])))
	v := make([]float32, 24)
	for j := range v {
		v[j] = float32(r.NormFloat64())
	}
	return tree.Node{
		ID: tree.LeafID("crash", document, i, text), DocumentID: document, ChunkIndex: i,
		Text: text, Tokens: 3, NLeaves: 1, Died: tree.Alive, Vector: unit(v),
	}
}

// runChild writes until it is killed.
func runChild(home string, number int, out io.Writer) error {
	ctx := context.Background()
	db, err := Open(home, Config{})
	if err != nil {
		return err
	}
	st, document := db.Store(), fmt.Sprintf("doc%d", number)
	for i := 0; ; i += 40 {
		var nodes []tree.Node
		for j := range 40 {
			nodes = append(nodes, crashLeaf(document, i+j))
		}
		if err := st.Put(ctx, "crash", nodes); err != nil {
			return err
		}
		for _, n := range nodes {
			fmt.Fprintln(out, "put", n.Text)
		}
		if err := st.Delete(ctx, "crash", []tree.ID{nodes[3].ID, nodes[7].ID}); err != nil {
			return err
		}
		fmt.Fprintf(out, "deleted %s\ndeleted %s\n", nodes[3].Text, nodes[7].Text)
		p := (number*7919 + i) % crashTotal
		if _, err := db.Barrier().Mark(ctx, crashLevel, "digest", levels.Mark{Position: p, Outcome: levels.Done}); err != nil {
			return err
		}
		fmt.Fprintln(out, "marked", p)
		if _, err := st.Search(ctx, "crash", store.Query{Vector: nodes[0].Vector, Limit: 3, Filter: store.AnyLevel()}); err != nil {
			return err
		}
	}
}

// checkHome opens the home as the next process would and compares it with what was reported.
func checkHome(t *testing.T, home string, log *crashLog) {
	t.Helper()
	db, err := Open(home, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	checkIntegrity(t, db, "crash")
	ctx, st := context.Background(), db.Store()
	var nodes []tree.Node
	texts := map[string]bool{}
	err = st.Each(ctx, "crash", store.AnyLevel(), store.Fields{Text: true, Vector: true}, func(n *tree.Node) error {
		nodes = append(nodes, *n)
		texts[n.Text] = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range log.kept {
		// The report of a deletion may have died with the child.
		if !texts[text] && !strings.HasSuffix(text, "3") && !strings.HasSuffix(text, "7") {
			t.Errorf("%q was reported as written and is gone", text)
		}
	}
	for _, text := range log.gone {
		if texts[text] {
			t.Errorf("%q was reported as deleted and is there", text)
		}
	}
	found, err := st.Keyword(ctx, "crash", store.Query{Text: "common", Limit: 1 << 20, Filter: store.AnyLevel()})
	if err != nil || len(found) != len(nodes) {
		t.Errorf("the keyword index finds %d of %d nodes: %v", len(found), len(nodes), err)
	}
	query := unit(append(make([]float32, 23), 1))
	near, err := st.Search(ctx, "crash", store.Query{Vector: query, Limit: 1 << 20, Filter: store.AnyLevel(), With: store.Fields{Vector: true}})
	if err != nil || len(near) != len(nodes) {
		t.Errorf("the search finds %d of %d nodes: %v", len(near), len(nodes), err)
	}
	for _, h := range near {
		if want := float64(dot(unit(h.Node.Vector), query)); h.Score != want {
			t.Fatalf("%s has score %v in the sidecar, %v in the database", h.Node.ID, h.Score, want)
		}
	}
	done, err := db.Barrier().Positions(ctx, crashLevel, levels.Done)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range log.marked {
		if !slices.Contains(done, p) {
			t.Errorf("position %d was reported as marked and isn't", p)
		}
	}
}

// checkIntegrity checks the file, the keyword index and that every table holds the same nodes.
func checkIntegrity(t *testing.T, db *DB, corpus string) {
	t.Helper()
	var verdict string
	var problems [4]int
	err := db.write(context.Background(), func(s *session) error {
		if _, err := s.row("PRAGMA integrity_check", nil, &verdict); err != nil {
			return err
		}
		c, err := s.collection(corpus)
		if err != nil || c == nil {
			return err
		}
		for i, query := range []string{
			"SELECT count(*) FROM nodes n WHERE NOT EXISTS (SELECT 1 FROM texts WHERE node = n.node) OR NOT EXISTS (SELECT 1 FROM vectors WHERE node = n.node) OR NOT EXISTS (SELECT 1 FROM documents d WHERE d.id = n.document)",
			"SELECT (SELECT count(*) FROM texts) + (SELECT count(*) FROM vectors) - 2 * (SELECT count(*) FROM nodes)",
			"SELECT count(*) FROM documents d WHERE NOT EXISTS (SELECT 1 FROM nodes n WHERE n.document = d.id)",
			"SELECT (SELECT count(*) FROM " + c.keywords + "_docsize) - (SELECT count(*) FROM nodes WHERE corpus = " + fmt.Sprint(c.id) + ")",
		} {
			if _, err := s.row(query, nil, &problems[i]); err != nil {
				return err
			}
		}
		return s.exec(fmt.Sprintf("INSERT INTO %[1]s (%[1]s) VALUES ('integrity-check')", c.keywords))
	})
	if err != nil || verdict != "ok" || problems != [4]int{} {
		t.Errorf("integrity: %q, problems %v, %v", verdict, problems, err)
	}
}
