package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/config/keyflag"
	"github.com/aerie-rag/aerie/internal/levels"
)

// stopped is the JSON of aerie pause and aerie cancel, and of aerie resume where there is nothing to go on with.
type stopped struct {
	Corpus string        `json:"corpus"`
	Build  string        `json:"build"` // "" if the corpus has none
	State  levels.Status `json:"state"`
	Why    string        `json:"why"`
}

func (c *cli) pauseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "pause", Short: "Let the running build rest: what is in hand finishes, and nothing is lost", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.stop(cmd.Context(), false) },
	}
	keyflag.Add(cmd.Flags(), c.flags, placeKeys)
	return cmd
}

func (c *cli) cancelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "cancel", Short: "End the running or unfinished build for good; the tree before it stays, and answers paid for are kept", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.stop(cmd.Context(), true) },
	}
	keyflag.Add(cmd.Flags(), c.flags, placeKeys)
	return cmd
}

func (c *cli) resumeCommand() *cobra.Command {
	var detach bool
	cmd := &cobra.Command{
		Use: "resume", Short: "Go on with the unfinished build, and with nothing else", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.resume(cmd.Context(), detach) },
	}
	cmd.Flags().BoolVar(&detach, "detach", false, "with --server: leave the build to the coordinator")
	keyflag.Add(cmd.Flags(), c.flags, allKeys, append(append([]string{}, buildShown...), clusterShown...)...)
	return cmd
}

// newest returns the newest build of the corpus; the zero one if there is none.
func (c *cli) newest(ctx context.Context, h place) (stopped, bool, error) {
	s := stopped{Corpus: c.cfg.Corpus}
	status, err := h.Status(ctx, c.cfg.Corpus)
	if err != nil || len(status.Corpora) == 0 || status.Corpora[0].Build == nil {
		return s, false, err
	}
	b := status.Corpora[0].Build
	s.Build, s.State, s.Why = b.Build, b.State, b.Why
	return s, b.Alive, nil
}

// over reports whether nothing can go on.
func (s stopped) over() bool {
	return s.Build == "" || s.State == levels.Built || s.State == levels.Cancelled
}

func (s stopped) print(w io.Writer) {
	switch {
	case s.Build == "":
		fmt.Fprintf(w, "%s has no build\n", s.Corpus)
	case s.over():
		fmt.Fprintf(w, "%s: build %s is %s; there is nothing unfinished\n", s.Corpus, s.Build, s.State)
	default:
		fmt.Fprintf(w, "%s: build %s is %s; aerie resume goes on with it, and pays for nothing twice\n", s.Corpus, s.Build, s.State)
	}
}

// stop pauses or cancels the newest build and waits until it rests.
func (c *cli) stop(ctx context.Context, cancel bool) error {
	h, err := c.openExisting()
	if err != nil {
		return err
	}
	defer h.close()
	s, alive, err := c.newest(ctx, h)
	if err != nil {
		return err
	}
	resting := (&levels.State{Status: s.State}).Resting()
	if s.over() || !cancel && resting {
		return c.print(s, s.print)
	}
	if !cancel && !alive {
		return nobodyPauses(s.Build)
	}
	asked, err := h.Stop(ctx, c.cfg.Corpus, s.Build, cancel)
	if err != nil {
		return err
	}
	if s.State, s.Why = asked.State, asked.Why; !(&levels.State{Status: s.State}).Resting() {
		c.note("asked; waiting for what is in hand")
		if s, err = c.awaitRest(ctx, h, s, cancel); err != nil {
			return err
		}
	}
	return c.print(s, s.print)
}

func nobodyPauses(build string) error {
	return failf(exitFailed, "aerie resume goes on with it; aerie cancel ends it", "no process works on build %s, so there is nobody to pause", build)
}

// awaitRest waits until a build that was asked to stop rests. One whose process turns out to be gone is cancelled without it.
func (c *cli) awaitRest(ctx context.Context, h place, s stopped, cancel bool) (stopped, error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		now, alive, err := c.newest(ctx, h)
		switch {
		case err != nil && ctx.Err() == nil:
			return s, err
		case err != nil:
		case now.Build != s.Build:
			return now, nil
		case (&levels.State{Status: now.State}).Resting():
			return now, nil
		case !alive && !cancel:
			return now, nobodyPauses(s.Build)
		case !alive:
			if _, err := h.Stop(ctx, c.cfg.Corpus, s.Build, true); err != nil {
				return now, err
			}
		}
		select {
		case <-ctx.Done():
			return s, failf(exitInterrupted, "", "build %s was asked to stop, and still works on what is in hand", s.Build)
		case <-tick.C:
		}
	}
}

func (c *cli) resume(ctx context.Context, detach bool) error {
	h, err := c.openExisting("build.max_tokens", "build.max_cost")
	if err != nil {
		return err
	}
	s, _, err := c.newest(ctx, h)
	h.close()
	switch {
	case err != nil:
		return err
	case s.over():
		return c.print(s, s.print)
	}
	return c.runBuild(ctx, api.Start{}, detach)
}
