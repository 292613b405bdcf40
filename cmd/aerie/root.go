package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/aerie-rag/aerie/internal/config"
	"github.com/aerie-rag/aerie/internal/config/keyflag"
)

// cli is one run of the program.
type cli struct {
	in       io.Reader
	out, err io.Writer
	env      []string

	// The global flags.
	home, file, output, logLevel, logFormat string
	// flags are the config keys that were given as flags.
	flags keyflag.Given

	// What load found.
	cfg     *config.Config
	origins config.Origins
	log     *slog.Logger
	logTo   redirect
}

// redirect is a writer whose target can be changed: while bars stand on a terminal, what is logged must go above them.
type redirect struct {
	mu sync.Mutex
	to io.Writer
}

func (r *redirect) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.to.Write(b)
}

func (r *redirect) point(to io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = to
}

// globalFlags says what the global flags are, for the environment too: AERIE_HOME and so on.
var globalFlags = []struct{ name, fallback, usage string }{
	{"home", ".aerie", "folder that holds all state"},
	{"config", "", "configuration file (default ./aerie.yaml if there)"},
	{"output", "table", "table, json (one object) or jsonl (one record a line)"},
	{"log-level", "warn", "debug, info, warn or error"},
	{"log-format", "", "text or json, on stderr (default text, or json when --output is)"},
}

// run runs one command line and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	c := &cli{in: stdin, env: os.Environ(), flags: keyflag.Given{}}
	c.out, c.err = &shown{stdout, c}, &shown{stderr, c}
	c.logTo.to = c.err
	root := c.root()
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	f := judge(ctx, explain(command, err))
	f.tell(c.err, wantsJSON(args, c.env))
	return f.exit
}

// root returns the command tree.
func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "aerie",
		Short: "aerie builds summary trees over a corpus and answers queries from them",
		Long: "aerie builds RAPTOR summary trees over a corpus, keeps them fresh as it grows, and answers queries over every\n" +
			"level of the tree.\n\nStart with:  aerie demo\nor:          aerie ingest FOLDER && aerie build && aerie query \"...\"",
		SilenceErrors: true, SilenceUsage: true, DisableSuggestions: true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return c.checkGlobals() },
	}
	root.Version = version
	root.SetVersionTemplate("aerie {{.Version}}\n")
	root.SetUsageTemplate(root.UsageTemplate() + "\nEvery key of aerie.yaml is also a flag of the commands that use it, such as --build.slots or --build-slots, and an\n" +
		"environment variable, such as AERIE_BUILD_SLOTS. `aerie config show` lists them all.\n")
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.err)
	flags := root.PersistentFlags()
	targets := map[string]*string{
		"home": &c.home, "config": &c.file, "output": &c.output, "log-level": &c.logLevel, "log-format": &c.logFormat,
	}
	for _, g := range globalFlags {
		fallback := g.fallback
		if v := c.lookupEnv(globalEnv(g.name)); v != "" {
			fallback = v
		}
		flags.StringVarP(targets[g.name], g.name, map[string]string{"output": "o"}[g.name], fallback, g.usage)
	}
	corpus, _ := config.Lookup("corpus")
	keyflag.AddOne(flags, c.flags, corpus, "corpus")
	server, _ := config.Lookup("server.url")
	keyflag.AddOne(flags, c.flags, server, "server")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef(cmd.CommandPath()+" --help lists the flags", "%w", keyflag.Explain(cmd.Flags(), cmd.CommandPath(), err))
	})
	root.AddCommand(c.commands()...)
	root.SetHelpCommand(&cobra.Command{Use: "help [command]", Short: "Help about any command", RunE: func(_ *cobra.Command, args []string) error {
		target, _, err := root.Find(args)
		if err != nil {
			return unknownCommand(root, args[0])
		}
		return target.Help()
	}})
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.Args = oneOfCommands
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
	return root
}

func globalEnv(flag string) string {
	return "AERIE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func (c *cli) lookupEnv(name string) string {
	for _, pair := range slices.Backward(c.env) {
		if n, v, _ := strings.Cut(pair, "="); n == name {
			return v
		}
	}
	return ""
}

// checkGlobals checks the global flags, before any command runs.
func (c *cli) checkGlobals() error {
	for _, g := range []struct {
		flag, value string
		valid       []string
	}{
		{"output", c.output, []string{"table", "json", "jsonl"}},
		{"log-level", c.logLevel, []string{"debug", "info", "warn", "error"}},
		{"log-format", c.logFormat, []string{"text", "json"}},
	} {
		if g.flag == "log-format" && g.value == "" {
			continue
		}
		if !slices.Contains(g.valid, g.value) {
			return usagef("", "--%s is %q; it must be one of %s; did you mean %s?", g.flag, g.value,
				strings.Join(g.valid, ", "), config.Nearest(g.value, g.valid))
		}
	}
	if c.home == "" {
		return usagef("", "--home is empty; it must name a folder, such as .aerie")
	}
	return nil
}

// load reads the configuration. Every command but init, version and completion starts with it, so that a wrong
// setting is never passed over.
func (c *cli) load() error {
	var also []string
	for _, g := range globalFlags {
		also = append(also, globalEnv(g.name))
	}
	var err error
	c.cfg, c.origins, err = config.Load(config.Options{File: c.file, Env: c.env, EnvAlso: also, Flags: c.flags})
	if err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.logLevel)); err != nil {
		panic("the levels were checked above: " + err.Error())
	}
	options := &slog.HandlerOptions{Level: level}
	c.log = slog.New(slog.NewTextHandler(&c.logTo, options))
	if c.logFormat == "json" || c.logFormat == "" && c.output != "table" {
		c.log = slog.New(slog.NewJSONHandler(&c.logTo, options))
	}
	return nil
}

// explain turns cobra's own errors into sentences that name the nearest valid word.
func explain(cmd *cobra.Command, err error) error {
	rest, unknown := strings.CutPrefix(err.Error(), "unknown command ")
	if !unknown {
		return err
	}
	name := rest
	if quoted, qerr := strconv.QuotedPrefix(rest); qerr == nil {
		name, _ = strconv.Unquote(quoted)
	}
	return unknownCommand(cmd, name)
}

func unknownCommand(cmd *cobra.Command, name string) error {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	if len(names) == 0 {
		return usagef(cmd.CommandPath()+" --help tells more", "%s takes no argument, and got %q", cmd.CommandPath(), name)
	}
	return usagef(cmd.CommandPath()+" --help lists what there is",
		"%q is not a command of %s; did you mean %q?", name, cmd.CommandPath(), config.Nearest(name, names))
}

// wantsJSON tells whether errors go out as JSON, also when the command line can't be parsed.
func wantsJSON(args, env []string) bool {
	format := (&cli{env: env}).lookupEnv("AERIE_OUTPUT")
	for i, arg := range args {
		if arg == "--" {
			break
		}
		for _, prefix := range []string{"--output=", "-o="} {
			if v, ok := strings.CutPrefix(arg, prefix); ok {
				format = v
			}
		}
		if (arg == "--output" || arg == "-o") && i+1 < len(args) {
			format = args[i+1]
		}
		if arg == "-ojson" || arg == "-ojsonl" {
			format = arg[2:]
		}
	}
	return format == "json" || format == "jsonl"
}

// oneOfCommands refuses an argument that is no subcommand.
func oneOfCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return unknownCommand(cmd, args[0])
}

// one returns a check for exactly one argument that says in a sentence what is missing.
func one(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		hint := "usage: " + cmd.UseLine()
		if len(args) == 0 {
			return usagef(hint, "%s needs %s", cmd.CommandPath(), what)
		}
		return usagef(tooMany(args[1:], hint), "%s takes %s, and got %q too", cmd.CommandPath(), what, args[1])
	}
}

// none refuses arguments.
func none(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usagef(tooMany(args, "usage: "+cmd.UseLine()), "%s takes no argument, and got %q", cmd.CommandPath(), args[0])
}

// some asks for at least one argument.
func some(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return nil
		}
		return usagef("usage: "+cmd.UseLine(), "%s needs %s", cmd.CommandPath(), what)
	}
}

// tooMany guesses the usual reason: a flag that is true or false takes its value after an equals sign only.
func tooMany(args []string, hint string) string {
	if slices.Contains(args, "true") || slices.Contains(args, "false") {
		return fmt.Sprintf("a flag that is true or false is written --flag=%s", args[0])
	}
	return hint
}
