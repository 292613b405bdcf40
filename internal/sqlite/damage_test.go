package sqlite

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/store"
)

// damageBlob turns over some bytes of a random block of one of the tables in which the keyword index is kept, or takes rows away.
func damageBlob(s *session, r *rand.Rand) (what string, err error) {
	table := []string{"words_1_data", "words_1_data", "words_1_data", "words_1_idx", "words_1_docsize", "words_1_config"}[r.IntN(6)]
	column := map[string]string{"words_1_data": "block", "words_1_idx": "term", "words_1_docsize": "sz", "words_1_config": "v"}[table]
	key := map[string]string{"words_1_data": "id", "words_1_idx": "rowid", "words_1_docsize": "id", "words_1_config": "rowid"}[table]
	if table == "words_1_idx" || table == "words_1_config" { // without rowid
		statement := []string{"DELETE FROM " + table, "UPDATE " + table + " SET " + column + " = x'ffffff'"}[r.IntN(2)]
		if table == "words_1_idx" {
			statement = []string{"DELETE FROM words_1_idx", "UPDATE words_1_idx SET pgno = pgno * 7919 + 12345"}[r.IntN(2)]
		}
		return statement, s.exec(statement)
	}
	var id int64
	var block []byte
	query := fmt.Sprintf("SELECT %s, %s FROM %s ORDER BY (%s * 2654435761 + ?) %% 1000003 LIMIT 1", key, column, table, key)
	if table == "words_1_data" && r.IntN(3) == 0 {
		query = "SELECT id, block FROM words_1_data WHERE id IN (1, 10) ORDER BY (id + ?) % 7 LIMIT 1"
	}
	if _, err := s.row(query, []any{r.IntN(1000)}, &id, &block); err != nil || len(block) == 0 {
		return "nothing", err
	}
	at := r.IntN(len(block))
	for i := range 13 {
		if at+i < len(block) {
			block[at+i] = []byte{0xff, 0x80, 0, byte(r.Uint32())}[r.IntN(4)]
		}
	}
	if r.IntN(5) == 0 {
		block = block[:at]
	}
	return fmt.Sprintf("%s %d at %d", table, id, at), s.exec(fmt.Sprintf("UPDATE %s SET %s = ? WHERE %s = ?", table, column, key), block, id)
}

// TestA8DamagedKeywordIndex: whatever is wrong with the index, a query ends at once, with its hits or with an error that names the
// cure, and the cure works.
func TestA8DamagedKeywordIndex(t *testing.T) {
	db := open(t, t.TempDir(), Config{})
	putAll(t, db.Store(), drawLeaves(200, 3), 40)
	query := store.Query{Text: benchWord(300) + " " + benchWord(2) + " " + benchWord(17), Limit: 1000, Filter: store.AnyLevel()}
	ask := func() ([]store.Hit, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		return db.Store().Keyword(ctx, "bench", query)
	}
	want, err := ask()
	if err != nil || len(want) == 0 {
		t.Fatal(err)
	}
	named := 0
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 8))
		var what string
		if err := db.write(t.Context(), func(s *session) (err error) { what, err = damageBlob(s, r); return err }); err != nil {
			t.Fatalf("%d: %s: %v", seed, what, err)
		}
		hits, err := ask()
		switch {
		case err == nil:
			if len(hits) > 200 {
				t.Errorf("%d: %s: %d hits", seed, what, len(hits))
			}
		case !errors.Is(err, store.ErrIndexDamaged):
			t.Errorf("%d: %s: %v", seed, what, err)
		default:
			named++
		}
		done, err := db.Repair(t.Context(), "")
		if diff := cmp.Diff([]Repaired{{"bench", 200}}, done); err != nil || diff != "" {
			t.Fatalf("%d: %s: repair: %v\n%s", seed, what, err, diff)
		}
		if got, err := ask(); err != nil || cmp.Diff(want, got) != "" {
			t.Fatalf("%d: %s: after the repair: %v\n%s", seed, what, err, cmp.Diff(want, got))
		}
		checkIntegrity(t, db, "bench")
	}
	if named < 10 {
		t.Errorf("only %d of 40 damages were noticed", named)
	}
}

// TestA8DamagedFiles: the files beside the database are believed only as far as they can be right; the hits stay the same.
func TestA8DamagedFiles(t *testing.T) {
	home := t.TempDir()
	cfg := Config{limits: limits{tail: 16, dead: 16}}
	leaves := drawLeaves(200, 3)
	query := store.Query{Vector: leaves[7].Vector, Limit: 20, Filter: store.AnyLevel(), With: store.Fields{Text: true}}
	first, err := Open(home, cfg)
	if err != nil {
		t.Fatal(err)
	}
	putAll(t, first.Store(), leaves, 40)
	want, err := first.Store().Search(t.Context(), "bench", query)
	if err != nil || first.Close() != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"vectors-*.f32", "nodes-*.tab"} {
		names, err := filepath.Glob(filepath.Join(home, pattern))
		if err != nil || len(names) != 1 {
			t.Fatalf("%s: %v, %v", pattern, names, err)
		}
		whole, err := os.ReadFile(names[0])
		if err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(24) {
			r := rand.New(rand.NewPCG(seed, 9))
			damagedFile := append([]byte(nil), whole...)
			slots := pattern == "vectors-*.f32"
			switch at := 8 * r.IntN(14); {
			case seed%4 == 0: // cut off
				damagedFile = damagedFile[:r.IntN(len(whole))]
			case slots, seed%4 == 1: // a number of the head
				binary.NativeEndian.PutUint64(damagedFile[at:], []uint64{1 << 63, 1<<63 - 1, 1 << 40, ^uint64(0), r.Uint64(), 0}[r.IntN(6)])
			default:
				for range 13 {
					damagedFile[r.IntN(len(whole))] ^= byte(1 + r.IntN(255))
				}
			}
			if err := os.WriteFile(names[0], damagedFile, 0o600); err != nil {
				t.Fatal(err)
			}
			db, err := Open(home, cfg)
			if err != nil {
				t.Fatal(err)
			}
			got, err := db.Store().Search(t.Context(), "bench", query)
			if err != nil || cmp.Diff(want, got) != "" {
				t.Errorf("%s, %d: %v\n%s", pattern, seed, err, cmp.Diff(want, got))
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestA8Words says what the cure is.
func TestA8Words(t *testing.T) {
	if _, err := parseStructure([]byte{0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0}); !errors.Is(err, store.ErrIndexDamaged) || !strings.Contains(err.Error(), "keyword index is damaged") {
		t.Errorf("%v", err)
	}
}

// fileStore is a store of a folder, without a database.
func fileStore(home string) (*Store, *collection) {
	c := &collection{id: 1, width: 3, next: 50, stamp: 7, keywords: "words_1", firstNode: 1 << sequenceBits, beyondNodes: 2 << sequenceBits}
	return &Store{db: &DB{home: home}}, c
}

// FuzzSidecar maps files of any bytes.
func FuzzSidecar(f *testing.F) {
	h := header{Magic: sidecarMagic, Boot: bootID(), Corpus: 1, Width: 3, Compacted: 2, Base: 9, Synced: 3, Count: 3}
	page, err := binary.Append(nil, binary.NativeEndian, &h)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(page, []byte{1, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0})
	home := f.TempDir()
	f.Fuzz(func(t *testing.T, head, rest []byte) {
		if len(head) > headerSize || len(rest) > 1<<16 {
			return
		}
		st, c := fileStore(home)
		data := append(append(append([]byte(nil), head...), make([]byte, headerSize-len(head))...), rest...)
		if err := os.WriteFile(st.sidecarPath(c), append(data, make([]byte, 256)...), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := st.mapSidecar(c)
		if err != nil {
			t.Fatal(err)
		}
		for sequence := range int64(60) {
			if slot, ok := m.slot(sequence); ok {
				m.vectors(slot, 1)
			}
		}
	})
}

// FuzzSnapshot maps files of any bytes.
func FuzzSnapshot(f *testing.F) {
	st, c := fileStore(f.TempDir())
	t := emptyTable(c)
	t.next, t.stamp, t.nodes, t.ids = 2, 7, []int64{c.firstNode, c.firstNode + 1}, append(t.ids, [16]byte{1}, [16]byte{2})
	for _, numbers := range t.numbers() {
		*numbers = []int32{0, 1}
	}
	if err := st.saveSnapshot(c, t); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(st.snapshotPath(c))
	if err != nil {
		f.Fatal(err)
	}
	if t, err := st.mapSnapshot(c); err != nil || len(t.nodes) != 2 {
		f.Fatalf("%v", err)
	}
	f.Add(whole)
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(st.snapshotPath(c), data, 0o600); err != nil {
			t.Fatal(err)
		}
		table, err := st.mapSnapshot(c)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(table.nodes); n != len(table.ids) || n != len(table.words) {
			t.Errorf("%d rows, %d ids", n, len(table.ids))
		}
	})
}
