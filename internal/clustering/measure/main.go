// Command measure prints what clustering takes on this machine: for each number of rows the seconds of each stage, the peak
// memory and the recall of the neighbors, and the speed of the kernel beside gonum's. `make bench` runs it.
//
// Each number of rows is one run of `aerie cluster` in a process of its own, so the peak memory is that run's. Rows are
// real ones as far as there are any, the first of a seeded shuffle; above that they come from package synthetic.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/aerie-rag/aerie/internal/clustering/kernel"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	aerie   string
	vectors string
	rows    []int
	runs    int
}

func parse(args []string) (options, error) {
	var o options
	var rows string
	flags := flag.NewFlagSet("measure", flag.ContinueOnError)
	flags.StringVar(&o.aerie, "aerie", "bin/aerie", "the program to measure")
	flags.StringVar(&o.vectors, "vectors", "internal/clustering/testdata/x_600x384_f32.npy", "real vectors, a .npy file of at least 16 rows")
	flags.StringVar(&rows, "rows", "1000,3000,10000,30000,100000", "numbers of rows, with commas")
	flags.IntVar(&o.runs, "runs", 1, "runs for each number of rows; the one of median time is printed")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	for field := range strings.SplitSeq(rows, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || n < 1 {
			return o, fmt.Errorf("--rows: %q is no number of at least 1", field)
		}
		o.rows = append(o.rows, n)
	}
	if o.runs < 1 {
		return o, fmt.Errorf("--runs is %d, but must be at least 1", o.runs)
	}
	return o, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	real, err := load(o.vectors)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "aerie-measure")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	fmt.Fprintf(out, "machine: %s\nrows: %s, %d real ones\n\n", machine(), filepath.Base(o.vectors), real.Len())
	printKernel(out)
	var lines []line
	for _, n := range o.rows {
		path := filepath.Join(dir, "rows.npy")
		if err := write(ctx, path, real, n); err != nil {
			return err
		}
		l, err := o.cluster(ctx, path, dir)
		if err != nil {
			return err
		}
		lines = append(lines, l)
		fmt.Fprintf(os.Stderr, "%d rows: %.1f s\n", n, l.Seconds)
	}
	return printLines(out, lines)
}

// line is what aerie cluster says of one run.
type line struct {
	N            int     `json:"n"`
	D            int     `json:"d"`
	Clusters     int     `json:"clusters"`
	Recall       float64 `json:"recall"`
	Seconds      float64 `json:"seconds"`
	PeakRSSBytes int64   `json:"peak_rss_bytes"`
	Stages       []struct {
		Name    string  `json:"name"`
		Seconds float64 `json:"seconds"`
	} `json:"stages"`
}

// cluster runs aerie cluster on the rows of a file and returns the run of median time.
func (o options) cluster(ctx context.Context, path, dir string) (line, error) {
	lines := make([]line, o.runs)
	for i := range lines {
		cmd := exec.CommandContext(ctx, o.aerie, "cluster", path, "--home", filepath.Join(dir, "home"), "--output", "json")
		var said strings.Builder
		cmd.Stderr = &said
		text, err := cmd.Output()
		if err != nil {
			return line{}, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(said.String()))
		}
		if err := json.Unmarshal(text, &lines[i]); err != nil {
			return line{}, fmt.Errorf("what %s cluster printed: %w", o.aerie, err)
		}
	}
	slices.SortFunc(lines, func(a, b line) int {
		if a.Seconds < b.Seconds {
			return -1
		}
		return 1
	})
	return lines[len(lines)/2], nil
}

func printLines(out io.Writer, lines []line) error {
	var names []string
	for _, l := range lines {
		for _, s := range l.Stages {
			if !slices.Contains(names, s.Name) {
				names = append(names, s.Name)
			}
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "n\td\tclusters\trecall\t%s\tall s\tpeak MB\t\n", strings.Join(names, " s\t")+" s")
	for _, l := range lines {
		fmt.Fprintf(w, "%d\t%d\t%d\t%.3f\t", l.N, l.D, l.Clusters, l.Recall)
		for _, name := range names {
			var seconds float64
			for _, s := range l.Stages {
				if s.Name == name {
					seconds += s.Seconds
				}
			}
			fmt.Fprintf(w, "%.2f\t", seconds)
		}
		fmt.Fprintf(w, "%.2f\t%d\t\n", l.Seconds, l.PeakRSSBytes>>20)
	}
	return w.Flush()
}

func printKernel(out io.Writer) {
	speeds := kernelSpeeds()
	gonum := speeds[len(speeds)-1].gflops
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "kernel, one core, %d x %d x %d\tGFLOP/s\ttimes gonum\t\n", side, side, depth)
	for _, s := range speeds {
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t\n", s.name, s.gflops, s.gflops/gonum)
	}
	w.Flush()
	fmt.Fprintln(out)
}

// machine says what the figures were measured on.
func machine() string {
	model := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for l := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(l, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d cores used, kernel %s, %s %s", model, runtime.GOMAXPROCS(0), kernel.Best().Name, runtime.Version(), runtime.GOOS)
}
