package levels_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/aerie-rag/aerie/internal/levels"
)

// TestScripts runs the conversations in testdata: a line with an event, below it what Step must answer. The answers
// are written by hand from the rules in the package comment.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			state := &levels.State{Build: "b", Generation: 1, Status: levels.Running}
			scanner := bufio.NewScanner(f)
			for line := 1; scanner.Scan(); line++ {
				text := scanner.Text()
				switch {
				case text == "" || strings.HasPrefix(text, "#"):
				case strings.HasPrefix(text, "max_depth "):
					state.MaxDepth, _ = strconv.Atoi(strings.Fields(text)[1])
				default:
					event, want, found := strings.Cut(text, " => ")
					if !found {
						t.Fatalf("%s:%d: no answer", file, line)
					}
					if got := answer(state, event); got != want {
						t.Errorf("%s:%d: %s\n got: %s\nwant: %s", file, line, event, got, want)
					}
				}
			}
		})
	}
}

// answer applies one event of a script and writes down the outcome.
func answer(s *levels.State, text string) string {
	if text == "next" {
		r := s.Next()
		return outcome(s, r, nil)
	}
	r, err := s.Step(parseEvent(text))
	return outcome(s, r, err)
}

func outcome(s *levels.State, r levels.Ready, err error) string {
	if err != nil {
		return "error"
	}
	var b strings.Builder
	if r.Save {
		b.WriteString("save, ")
	}
	b.WriteString(string(r.Do))
	if r.Level > 0 {
		fmt.Fprintf(&b, " %d", r.Level)
	}
	fmt.Fprintf(&b, " (%s)", s.Status)
	return b.String()
}

// stopAs is a Stop of the first cause that goes with a status.
func stopAs(status levels.Status, why string) levels.Stop {
	return levels.Stop{Status: status, Cause: levels.CauseOf(status, "", ""), Sentence: why}
}

func parseEvent(text string) levels.Event {
	fields := strings.Fields(text)
	arg := map[string]string{}
	for _, f := range fields[1:] {
		key, value, _ := strings.Cut(f, "=")
		arg[key] = value
	}
	num := func(key string) int { n, _ := strconv.Atoi(arg[key]); return n }
	switch fields[0] {
	case "planned":
		return levels.LevelPlanned{Level: num("level"), NodesIn: num("in"), Total: num("total"), Digest: arg["digest"]}
	case "nolevel":
		return levels.NoLevel{Level: num("level"), Why: arg["why"]}
	case "published":
		return levels.LevelPublished{Level: num("level")}
	case "counted":
		return levels.LevelCounted{
			Level: num("level"), Allowed: num("allowed"),
			Count: levels.Count{Total: num("total"), Done: num("done"), Dead: num("dead")},
		}
	case "planlost":
		return levels.PlanLost{Level: num("level")}
	case "treepublished":
		return levels.TreePublished{}
	case "stopped":
		return levels.Stopped{Stop: stopAs(levels.Status(arg["as"]), arg["why"])}
	case "resumed":
		return levels.Resumed{}
	case "reopened":
		return levels.Reopened{Level: num("level")}
	}
	panic("unknown event " + text)
}

// TestAnyOrder throws random events, many of them late or repeated, at a build. Whatever comes, the phases of the
// levels keep their order, a repeat of an accepted event changes nothing, and a refused event leaves no trace.
func TestAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &levels.State{Build: "b", Status: levels.Running, MaxDepth: rapid.IntRange(0, 3).Draw(t, "max depth")}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			e := drawEvent(t, s)
			before := *s
			before.Levels = append([]levels.Level(nil), s.Levels...)
			_, err := s.Step(e)
			if err != nil {
				if diff := cmp.Diff(&before, s, cmp.Comparer(sameLevels)); diff != "" {
					t.Fatalf("refused %#v left a trace:\n%s", e, diff)
				}
				continue
			}
			checkOrder(t, s)
			if repeatable(e) {
				r, err := s.Step(e)
				if err == nil && r.Save {
					t.Fatalf("%#v twice changed the state twice", e)
				}
			}
		}
	})
}

func sameLevels(a, b []levels.Level) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// repeatable leaves out what undoes something: those repeat by design when the state went on in between.
func repeatable(e levels.Event) bool {
	switch e.(type) {
	case levels.PlanLost, levels.Reopened:
		return false
	}
	return true
}

func drawEvent(t *rapid.T, s *levels.State) levels.Event {
	level := rapid.IntRange(1, len(s.Levels)+1).Draw(t, "level")
	total := 4
	if l := s.At(level); l != nil {
		total = l.Total
	}
	switch rapid.IntRange(0, 8).Draw(t, "event") {
	case 0:
		return levels.LevelPlanned{Level: level, NodesIn: 9, Total: 4, Digest: "d"}
	case 1:
		return levels.NoLevel{Level: level, Why: "enough"}
	case 2:
		return levels.LevelPublished{Level: level}
	case 3, 4:
		done := rapid.IntRange(0, total).Draw(t, "done")
		dead := rapid.IntRange(0, total-done).Draw(t, "dead")
		return levels.LevelCounted{Level: level, Count: levels.Count{Total: total, Done: done, Dead: dead}}
	case 5:
		return levels.PlanLost{Level: level}
	case 6:
		return levels.TreePublished{}
	case 7:
		return levels.Stopped{Stop: levels.Stop{Status: levels.Paused, Cause: levels.CauseAsked, Sentence: "asked for"}}
	}
	if rapid.Bool().Draw(t, "reopen") {
		return levels.Reopened{Level: level}
	}
	return levels.Resumed{}
}

// A build that is over has its plans dropped; that they are lost then changes nothing.
func TestPlanLostAfterTheEnd(t *testing.T) {
	s := &levels.State{Status: levels.Running, MaxDepth: 1}
	for _, e := range []levels.Event{
		levels.LevelPlanned{Level: 1, NodesIn: 9, Total: 4, Digest: "d"}, levels.LevelPublished{Level: 1},
		levels.LevelCounted{Level: 1, Count: levels.Count{Total: 4, Done: 4}}, levels.TreePublished{},
	} {
		if _, err := s.Step(e); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := s.Step(levels.PlanLost{Level: 1}); err != nil || r.Save || s.Status != levels.Built || len(s.Levels) != 1 {
		t.Errorf("%+v, %v: %s with %d levels", r, err, s.Status, len(s.Levels))
	}
}

func checkOrder(t *rapid.T, s *levels.State) {
	for i, l := range s.Levels {
		if l.Level != i+1 {
			t.Fatalf("level %d stands at place %d", l.Level, i+1)
		}
		if i < len(s.Levels)-1 && l.Phase != levels.Sealed {
			t.Fatalf("level %d is %s with a level above it", l.Level, l.Phase)
		}
		if l.Phase == levels.Sealed && l.Done+l.Dead != l.Total {
			t.Fatalf("level %d is sealed with %d done and %d dead of %d", l.Level, l.Done, l.Dead, l.Total)
		}
		if s.MaxDepth > 0 && l.Level > s.MaxDepth {
			t.Fatalf("level %d is above max_depth %d", l.Level, s.MaxDepth)
		}
	}
	if s.Status == levels.Built && s.StoppedBecause == "" {
		t.Fatal("a build is done and doesn't say why it went no higher")
	}
}
