package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/aerie-rag/aerie/internal/journal"
)

// reserve is a journal that keeps the paid answers which the one behind it can't take, until it can. Of one machine they are in a
// file whose room was taken while there was some, so that a full disk has a place for what is under way when it fills; a fleet's
// worker keeps them in memory.
//
// The file is zeros, and from its beginning on one entry after the other: length and checksum, then JSON.
type reserve struct {
	journal.Journal
	log *slog.Logger

	mu    sync.Mutex // guards what follows
	held  map[string]journal.Entry
	bytes int
	file  *os.File // nil: there is none
	used  int64
}

const (
	reserveName = "reserve"
	// reserveBytes holds some hundred answers: more than are under way at a time.
	reserveBytes = 512 << 10
	// heldBytes bounds what is kept in memory.
	heldBytes = 32 << 20
	// entryHead is length and checksum.
	entryHead = 8
)

type reserved struct {
	Key   string        `json:"key"`
	Entry journal.Entry `json:"entry"`
}

// newReserve returns a journal whose file is path, or in memory alone with "". It hands on what a process before has left there.
func newReserve(to journal.Journal, path string, log *slog.Logger) *reserve {
	r := &reserve{Journal: to, log: log, held: map[string]journal.Entry{}}
	if path == "" {
		return r
	}
	if err := r.open(path); err != nil {
		log.Debug("no room is set aside for answers that a full disk can't take", "error", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drain(ctx)
	return r
}

func (r *reserve) open(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	content, err := io.ReadAll(io.LimitReader(file, reserveBytes))
	if err == nil && len(content) < reserveBytes { // the room is taken by writing to it
		if _, err = file.WriteAt(make([]byte, reserveBytes-len(content)), int64(len(content))); err == nil {
			err = file.Sync()
		}
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	r.file = file
	for {
		one, rest, ok := nextReserved(content)
		if !ok {
			return nil
		}
		r.held[one.Key] = one.Entry
		r.used += int64(len(content) - len(rest))
		content = rest
	}
}

// nextReserved reads one entry; ok is false at the end, and where an entry isn't whole.
func nextReserved(content []byte) (one reserved, rest []byte, ok bool) {
	if len(content) < entryHead {
		return one, nil, false
	}
	n := int(binary.LittleEndian.Uint32(content))
	if n == 0 || n > len(content)-entryHead {
		return one, nil, false
	}
	text := content[entryHead : entryHead+n]
	if crc32.ChecksumIEEE(text) != binary.LittleEndian.Uint32(content[4:]) || json.Unmarshal(text, &one) != nil {
		return one, nil, false
	}
	return one, content[entryHead+n:], true
}

// Lookup implements journal.Journal.
func (r *reserve) Lookup(ctx context.Context, key string) (journal.Entry, error) {
	r.mu.Lock()
	entry, ok := r.held[key]
	r.mu.Unlock()
	if ok {
		return entry, nil
	}
	return r.Journal.Lookup(ctx, key)
}

// Record implements journal.Journal. An answer that is in the file is kept; one that is only in memory is an error all the same.
func (r *reserve) Record(ctx context.Context, key string, e journal.Entry) error {
	err := r.Journal.Record(ctx, key, e)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.drain(ctx)
		return nil
	}
	text, jsonErr := json.Marshal(reserved{key, e})
	if jsonErr != nil || r.bytes+len(text) > heldBytes {
		return err
	}
	r.held[key] = e
	r.bytes += len(text)
	if r.write(text) {
		return nil
	}
	return err
}

// write puts an entry into the file, and reports whether it is on the disk.
func (r *reserve) write(text []byte) bool {
	if r.file == nil || r.used+entryHead+int64(len(text)) > reserveBytes {
		return false
	}
	var entry bytes.Buffer
	_ = binary.Write(&entry, binary.LittleEndian, [2]uint32{uint32(len(text)), crc32.ChecksumIEEE(text)})
	entry.Write(text)
	if _, err := r.file.WriteAt(entry.Bytes(), r.used); err != nil {
		return false
	}
	r.used += int64(entry.Len())
	return r.file.Sync() == nil
}

// drain hands on what is held, as far as the journal takes it, and wipes the file once it has taken all. r.mu is held.
func (r *reserve) drain(ctx context.Context) {
	for key, entry := range r.held {
		if err := r.Journal.Record(ctx, key, entry); err != nil {
			return
		}
		delete(r.held, key)
	}
	r.bytes = 0
	r.wipe()
}

// wipe writes zeros over what the file holds: no word may stay that is forgotten elsewhere.
func (r *reserve) wipe() {
	if r.file == nil || r.used == 0 {
		return
	}
	if _, err := r.file.WriteAt(make([]byte, r.used), 0); err != nil {
		r.log.Warn("answers that the journal has are still in the file beside it", "error", err)
		return
	}
	r.used = 0
	if err := r.file.Sync(); err != nil {
		r.log.Warn("answers that the journal has may still be in the file beside it", "error", err)
	}
}

// Erase implements journal.Journal: what is held goes to the journal first, whose answers are then erased.
func (r *reserve) Erase(ctx context.Context, corpus string) (int, error) {
	r.mu.Lock()
	r.drain(ctx)
	left := len(r.held)
	r.mu.Unlock()
	if left > 0 {
		return 0, errors.New("answers that the journal had no room for are still beside it: make room, and do this again")
	}
	return r.Journal.Erase(ctx, corpus)
}

// Close tries once more to hand on what is held, and lets go of the file.
func (r *reserve) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.held) > 0 {
		r.drain(ctx)
	}
	if len(r.held) > 0 && r.file == nil {
		r.log.Error("paid answers that the journal didn't take are lost with this process", "answers", len(r.held))
	}
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

var _ journal.Journal = (*reserve)(nil)
