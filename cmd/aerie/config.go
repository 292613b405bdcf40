package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/aerie-rag/aerie/internal/config"
	"github.com/aerie-rag/aerie/internal/config/keyflag"
)

func (c *cli) configCommand() *cobra.Command {
	show := &cobra.Command{
		Use: "show", Short: "Print every effective setting and where it comes from", Args: none,
		RunE: func(*cobra.Command, []string) error { return c.showConfig() },
	}
	keyflag.Add(show.Flags(), c.flags, allKeys)
	cmd := &cobra.Command{
		Use: "config", Short: "Show the configuration",
		Args: oneOfCommands,
		RunE: func(*cobra.Command, []string) error { return c.showConfig() },
	}
	keyflag.Add(cmd.Flags(), c.flags, allKeys)
	cmd.AddCommand(show)
	return cmd
}

func (c *cli) showConfig() error {
	if err := c.load(); err != nil {
		return err
	}
	settings := c.cfg.Settings(c.origins)
	if c.output == "jsonl" {
		for _, s := range settings {
			if err := c.printJSON(s); err != nil {
				return err
			}
		}
		return nil
	}
	return c.print(struct {
		Settings []config.Setting `json:"settings"`
	}{settings}, func(w io.Writer) {
		var cells []string
		for _, s := range settings {
			cells = append(cells, s.Key, s.Text()+"\t"+s.Origin)
		}
		pairs(w, cells...)
	})
}

func (c *cli) initCommand() *cobra.Command {
	return &cobra.Command{
		Use: "init", Short: "Write a commented aerie.yaml", Args: none,
		RunE: func(*cobra.Command, []string) error {
			path := c.file
			if path == "" {
				path = config.DefaultFile
			}
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // keys may be written into it
			if errors.Is(err, fs.ErrExist) {
				return usagef("move it away, or name another with --config", "%s is there already and was left as it is", path)
			}
			if err != nil {
				return err
			}
			_, err = f.WriteString(config.Template())
			if err := errors.Join(err, f.Close()); err != nil {
				return err
			}
			return c.print(map[string]string{"file": path}, func(w io.Writer) { fmt.Fprintln(w, path) })
		},
	}
}

// version is set by the linker; see the Makefile.
var version = "devel"

// buildInfo is what the program knows of its own making.
type buildInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func readBuildInfo() buildInfo {
	v := buildInfo{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if version == "devel" && info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Revision = s.Value
		}
	}
	return v
}

func (c *cli) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: none,
		RunE: func(*cobra.Command, []string) error {
			v := readBuildInfo()
			return c.print(v, func(w io.Writer) {
				fmt.Fprintf(w, "aerie %s %s %s\n", v.Version, v.Go, v.Platform)
			})
		},
	}
}
