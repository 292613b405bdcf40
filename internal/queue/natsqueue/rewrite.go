package natsqueue

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// rewritten are the streams that may hold words of documents: answers, why tasks were buried, and copies of states that say so too.
var rewritten = []string{journalStream, deadStream, plansStream}

// Rewrite writes anew what the streams of an embedded queue hold, so that whatever was removed or replaced is in none of their files.
// A remote server frees the room by itself, at a time of its own; there it does nothing.
func (c *Conn) Rewrite(ctx context.Context) error {
	if c.dir == "" {
		return nil
	}
	c.anew.Lock()
	defer c.anew.Unlock()
	for _, stream := range rewritten {
		if err := c.rewrite(ctx, stream); err != nil {
			return fmt.Errorf("natsqueue: write stream %s anew: %w", stream, err)
		}
	}
	return nil
}

// rewrite saves what a stream holds, empties it, and puts that back. After a kill the next start puts it back.
func (c *Conn) rewrite(ctx context.Context, stream string) error {
	saved := c.savedPath(stream)
	if err := c.save(ctx, stream, saved); err != nil {
		return err
	}
	if err := c.purge(ctx, stream, ""); err != nil {
		return err
	}
	return c.restore(ctx, stream, saved)
}

func (c *Conn) savedPath(stream string) string {
	return filepath.Join(filepath.Dir(c.dir), "rewrite-"+stream+".jsonl")
}

// save writes the messages of a stream to a file, on the disk.
func (c *Conn) save(ctx context.Context, stream, path string) error {
	f, err := os.OpenFile(path+".part", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	out := bufio.NewWriter(f)
	encoder := json.NewEncoder(out)
	for next := uint64(1); ; {
		msg, err := c.message(ctx, stream, msgRequest{Seq: next, Next: ">"})
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			break
		}
		if err == nil {
			err = encoder.Encode(msg)
		}
		if err != nil {
			return err
		}
		next = msg.Seq + 1
	}
	if err := errors.Join(out.Flush(), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".part", path); err != nil {
		return err
	}
	return syncFile(filepath.Dir(path))
}

// restore puts the messages of a file back that a stream lacks, and removes the file and what the server has moved out of its way.
func (c *Conn) restore(ctx context.Context, stream, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	subjects, err := c.subjects(ctx, stream, ">")
	if err != nil {
		return err
	}
	there := make(map[string]bool, len(subjects))
	for _, subject := range subjects {
		there[subject] = true
	}
	// A plan's chunks share a subject. They are complete only with their description, which comes after them: without it they are put
	// back from the first.
	decoder := json.NewDecoder(bufio.NewReader(f))
	for {
		var msg storedMsg
		err := decoder.Decode(&msg)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && !there[msg.Subject] {
			err = c.putBack(ctx, &msg)
		}
		if err != nil {
			return err
		}
	}
	if err := c.flush(stream); err != nil {
		return err
	}
	// The server deletes what it has emptied out of band.
	if err := os.RemoveAll(filepath.Join(c.dir, stream, "__msgs__")); err != nil {
		return err
	}
	return os.Remove(path)
}

// putBack publishes a message as it was stored, without what it expected of the stream then.
func (c *Conn) putBack(ctx context.Context, stored *storedMsg) error {
	msg := &nats.Msg{Subject: stored.Subject, Data: stored.Data}
	if len(stored.Header) > 0 {
		header, err := nats.DecodeHeadersMsg(stored.Header)
		if err != nil {
			return err
		}
		msg.Header = nats.Header{}
		for name, values := range header {
			if !strings.HasPrefix(name, "Nats-Expected-") && name != nats.MsgIdHdr {
				msg.Header[name] = values
			}
		}
	}
	return c.try(ctx, ackTimeout, func(ctx context.Context) error {
		_, err := c.js.PublishMsg(ctx, msg)
		return err
	})
}

// finishRewrites puts back what a process that was killed had taken out to write it anew.
func (c *Conn) finishRewrites(ctx context.Context) error {
	for _, stream := range rewritten {
		path := c.savedPath(stream)
		if err := os.Remove(path + ".part"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := c.withoutHalves(ctx, stream, data); err != nil {
			return err
		}
		if err := c.restore(ctx, stream, path); err != nil {
			return fmt.Errorf("putting back what %s holds: %w", path, err)
		}
	}
	return nil
}

// withoutHalves empties the subjects of chunks of which some may have been put back, and some not.
func (c *Conn) withoutHalves(ctx context.Context, stream string, saved []byte) error {
	if stream != plansStream {
		return nil
	}
	seen := map[string]int{}
	for line := range bytes.Lines(saved) {
		var msg storedMsg
		if err := json.Unmarshal(line, &msg); err != nil {
			return err
		}
		if strings.HasPrefix(msg.Subject, chunkPrefix) {
			seen[msg.Subject]++
		}
	}
	for subject := range seen {
		if err := c.purge(ctx, stream, subject); err != nil {
			return err
		}
	}
	return nil
}
