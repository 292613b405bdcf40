package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/netutil"

	"github.com/aerie-rag/aerie/cmd/internal/wire"
	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/client"
	"github.com/aerie-rag/aerie/internal/config"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/corpus"
	"github.com/aerie-rag/aerie/internal/ingest"
	"github.com/aerie-rag/aerie/internal/server"
	"github.com/aerie-rag/aerie/internal/service"
)

// noBuilds is a builder that builds nothing: clustering is none of this.
type noBuilds struct{}

var errNoBuilds = api.Conflictf("", "nothing is built here")

func (noBuilds) Run(context.Context, string, coordinator.Request, api.BuildRequest) (api.BuildReport, error) {
	return api.BuildReport{}, errNoBuilds
}

func (noBuilds) Coordinator(context.Context, string) (*coordinator.Coordinator, error) {
	return nil, errNoBuilds
}

func (noBuilds) Purge(context.Context, string, string) error { return nil }

// serve is the server's process: it prints its address, and ends with its standard input. Its patience is shorter than a
// coordinator's, so that slow clients are dropped while somebody looks.
func serve(ctx context.Context, home string, out io.Writer) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	places, err := wire.Open(ctx, config.Default(), home, log)
	if err != nil {
		return err
	}
	defer places.Close()
	cfg, deps, err := places.ServiceConfig(corpus.NewCounter(), noBuilds{})
	if err != nil {
		return err
	}
	svc := service.New(cfg, deps)
	defer svc.Close()
	web := server.New(server.Config{BodyIdle: 3 * time.Second, Slow: 3 * time.Second, Log: log}, svc, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	listener := &http.Server{
		Handler: web.Handler(), ReadHeaderTimeout: 3 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = listener.Close()
	}()
	fmt.Fprintln(out, l.Addr())
	if err := listener.Serve(netutil.LimitListener(l, 4096)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ingestFile is a process that does what aerie does with a file on somebody else's behalf. What is wrong with the file is no failure.
func ingestFile(ctx context.Context, to, file string) error {
	c, err := client.New(client.Config{URL: "http://" + to})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = ingest.Remote{To: c, Base: filepath.Dir(file)}.Ingest(ctx, ingest.Request{Corpus: "evil", Paths: []string{file}})
	var answered *api.Error
	if errors.As(err, &answered) && answered.Status >= 400 && answered.Status < 500 {
		err = nil
	}
	return err
}

// victim is the server's process, seen from outside.
type victim struct {
	cmd     *exec.Cmd
	end     io.Closer
	address string
	client  *client.Client
}

func startVictim(ctx context.Context, folder string) (*victim, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "--serve", filepath.Join(folder, "home"))
	cmd.Stderr, cmd.Env = os.Stderr, append(os.Environ(), asCommand+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("the server has not come up: %w", errors.Join(err, cmd.Wait()))
	}
	v := &victim{cmd: cmd, end: in, address: strings.TrimSpace(address)}
	v.client, err = client.New(client.Config{URL: "http://" + v.address})
	return v, err
}

// asCommand makes a test's binary run main.
const asCommand = "AERIE_HOSTILE_COMMAND"

func (v *victim) stop() error {
	v.client.Close()
	return errors.Join(v.end.Close(), v.cmd.Wait())
}

// fill stores what must still be there in the end, and returns how it is.
func (v *victim) fill(ctx context.Context) (string, error) {
	var rows strings.Builder
	for i := range 400 {
		fmt.Fprintf(&rows, `{"id":"g%d","document_id":"good/%d","text":"Owls listen in the dark, and number %d does so too."}`+"\n", i, i%40, i)
	}
	there := ingest.Remote{To: v.client}
	if _, err := there.Ingest(ctx, ingest.Request{Corpus: "good", Paths: []string{"-"}, Stdin: strings.NewReader(rows.String())}); err != nil {
		return "", err
	}
	return v.state(ctx)
}

// state tells all that is stored in the corpus that nobody may touch.
func (v *victim) state(ctx context.Context) (string, error) {
	hash, err := v.client.TreeHash(ctx, "good")
	if err != nil {
		return "", err
	}
	page, err := v.client.Documents(ctx, api.DocumentsRequest{Corpus: "good", Limit: 1000})
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(page.Documents)
	return fmt.Sprintf("%s %s", hash.Hash, data), err
}

// proc reads a file of the process's folder in /proc.
func (v *victim) proc(name string) (string, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(v.cmd.Process.Pid), name))
	return string(data), err
}

// memory returns the most bytes that the process has held.
func (v *victim) memory() (int64, error) {
	text, err := v.proc("status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(text, "VmHWM:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0, errors.New("the process has no VmHWM")
	}
	kib, err := strconv.ParseInt(fields[0], 10, 64)
	return kib << 10, err
}

// cpu returns how many seconds of the processor the process has had.
func (v *victim) cpu() (float64, error) {
	text, err := v.proc("stat")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	user, err1 := strconv.ParseFloat(fields[11], 64)
	system, err2 := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100, errors.Join(err1, err2) // USER_HZ is 100 wherever Linux runs Go
}

// alive reports whether the process is still there.
func (v *victim) alive() bool { return v.cmd.Process.Signal(syscall.Signal(0)) == nil }
