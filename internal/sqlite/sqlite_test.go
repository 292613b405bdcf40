package sqlite

import (
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/aerie-rag/aerie/internal/levels/leveltest"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a home that lives as long as the test.
func open(t testing.TB, home string, cfg Config) *DB {
	t.Helper()
	db, err := Open(home, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return db
}

func TestStoreContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, t.TempDir(), Config{}).Store() })
}

func TestLevelsContract(t *testing.T) {
	leveltest.Run(t, func(t *testing.T) leveltest.Ports {
		var elapsed atomic.Int64
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		db := open(t, t.TempDir(), Config{Now: func() time.Time { return start.Add(time.Duration(elapsed.Load())) }})
		return leveltest.Ports{
			Barrier: db.Barrier(), Builds: db.Builds(), Corpora: db.Corpora(),
			Advance: func(d time.Duration) { elapsed.Add(int64(d)) },
		}
	})
}
