package natsqueue

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// flusher forces the files of some streams of an embedded server to the disk. The server itself can do that after
// every write to any stream, or not at all; but only paid answers and plans are worth it. Whatever else a power cut takes,
// tasks, the dead and attempts, is made again from these and the nodes.
//
// It knows that the server writes each message to a file of its stream's folder, msgs/<n>.blk, before it
// confirms it; TestAnswersAreInTheFlushedFiles holds that.
type flusher struct {
	streams string // the folder of all streams
	sync    func(path string) error

	running sync.Mutex
	mu      sync.Mutex
	next    map[string]*flush   // by stream: the flush that has not begun
	seen    map[string]fileTime // by path: the state that was flushed
}

// flush is one round, which several callers may wait for.
type flush struct {
	done chan struct{}
	err  error
}

type fileTime struct {
	size     int64
	modified time.Time
}

func newFlusher(streams string) *flusher {
	return &flusher{streams: streams, sync: syncFile, next: map[string]*flush{}, seen: map[string]fileTime{}}
}

// flush returns when everything that the server had confirmed for a stream before the call is on the disk. Calls at
// the same time share one round.
func (f *flusher) flush(stream string) error {
	f.mu.Lock()
	round, joined := f.next[stream]
	if !joined {
		round = &flush{done: make(chan struct{})}
		f.next[stream] = round
	}
	f.mu.Unlock()
	if joined {
		<-round.done
		return round.err
	}
	f.running.Lock()
	defer f.running.Unlock()
	f.mu.Lock()
	delete(f.next, stream) // who comes from now on may have written too late for this round
	f.mu.Unlock()
	round.err = f.flushFolder(filepath.Join(f.streams, stream, "msgs"))
	close(round.done)
	return round.err
}

// flushFolder flushes the blocks that have changed since they were flushed last, and the folder if there are new ones.
func (f *flusher) flushFolder(folder string) error {
	paths, err := filepath.Glob(filepath.Join(folder, "*.blk"))
	if err == nil && len(paths) == 0 {
		err = fmt.Errorf("no blocks in %s: has the server changed its files?", folder)
	}
	if err != nil {
		return err
	}
	known := true
	for _, path := range paths {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the server has removed a block without live messages
		}
		if err != nil {
			return err
		}
		now := fileTime{size: info.Size(), modified: info.ModTime()}
		before, ok := f.seen[path]
		known = known && ok
		if ok && before == now {
			continue
		}
		if err := f.sync(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		f.seen[path] = now
	}
	if known {
		return nil
	}
	return f.sync(folder)
}

// flushAll flushes every file and folder: for a store that has just been made.
func (f *flusher) flushAll() error {
	f.running.Lock()
	defer f.running.Unlock()
	return filepath.WalkDir(f.streams, func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = f.sync(path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

// syncFile forces a file or a folder to the disk.
func syncFile(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, syscall.EISDIR) {
		file, err = os.Open(path)
	}
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
