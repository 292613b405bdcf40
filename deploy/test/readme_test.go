package deploy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadme holds that the example of the chart's readme can be installed, and that what it counts is so.
func TestReadme(t *testing.T) {
	text := string(read(t, chartDir+"/README.md"))
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(text, -1)
	if len(examples) == 0 {
		t.Fatal("no example")
	}
	for _, m := range examples {
		if _, err := render(parse(t, m[1])); err != nil {
			t.Errorf("%v in\n%s", err, m[1])
		}
	}
	if want := fmt.Sprintf("%d alerts", len(alerts(t))); !strings.Contains(text, want) {
		t.Errorf("it doesn't say %s", want)
	}
}

// TestLinks holds that every relative link of the pages here leads to a file.
func TestLinks(t *testing.T) {
	links := 0
	for _, page := range []string{"../README.md", chartDir + "/README.md", "../compose/README.md", operations} {
		for _, m := range regexp.MustCompile(`\]\(([^)#]+)(#[^)]*)?\)`).FindAllStringSubmatch(string(read(t, page)), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
	if links < 10 {
		t.Errorf("%d links: the search is wrong", links)
	}
}
