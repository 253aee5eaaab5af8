// Package command is the command holdfast: its verbs and their flags. Each verb is
// one file. The process groups of `run` are package internal/guard, URLs are
// package internal/store, the checks of `doctor` are package internal/doctor and
// what they find is internal/diagnosis, and the scene of `demo` is package internal/demo.
package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/guard"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
)

// Main runs the program and returns its exit code. What the program is depends on the
// name that it was started under, which is args[0]. It opens stores of Redis and those of
// drivers; for others it replaces itself by store.Program.
func Main(args []string, drivers ...store.Driver) int {
	switch filepath.Base(args[0]) {
	case guard.Name:
		return guard.Main(args)
	case demo.NodeName:
		return demo.NodeMain(os.Stdin, os.Stdout, drivers)
	}
	var job *guard.ShellJob
	if filepath.Base(args[0]) == guard.ClientName {
		var err error
		if job, args, err = guard.OpenShellJob(args); err != nil {
			fmt.Fprintf(os.Stderr, "holdfast: this is %s, which holdfast starts on a terminal; it is of no use by itself\n", guard.ClientName)
			return exitUsage
		}
	}
	// go-redis writes its troubles to standard error, among the command's own
	// output. Those that matter come back as errors.
	logging.Disable()
	e := &env{args: args, job: job, opener: store.Opener{Drivers: drivers}, stdout: os.Stdout, stderr: os.Stderr}
	if err := e.takeOver(); err != nil {
		return exitCode(err, asksJSON(args))
	}
	return e.run(args[1:])
}

// cli is the flags of all verbs.
type cli struct {
	Store text `aliases:"redis" env:"HOLDFAST_STORE,HOLDFAST_REDIS" default:"redis://127.0.0.1:6379" placeholder:"URL" help:"Store: redis://[user:password@]host:port[/db], rediss://, unix:///path, redis+sentinel://h:p,h:p/master[/db], redis+cluster://h:p,h:p, postgres://host/database, mysql://host/database, sqlite:///path, etcd://h:p,h:p or zk://h:p,h:p[/root]; several URLs separated by commas are a quorum. Keep a password in the environment rather than in the arguments. --redis is the same. Default: ${default}."`
	storeFlags
	Prefix      text        `env:"HOLDFAST_PREFIX" default:"holdfast" placeholder:"TEXT" help:"Prefix of every key in the store; the same as the services' WithPrefix. Default: ${default}."`
	History     int         `env:"HOLDFAST_HISTORY" placeholder:"N" help:"Record in the store what happens to leases, and keep about the last N events; see holdfast log. Default: record nothing."`
	ShowVersion versionFlag `name:"version" help:"Show the version."`
}

// verbs are the verbs with their own flags.
type verbs struct {
	Run     runCmd     `cmd:"" help:"Run a command under the lease of a resource."`
	Once    onceCmd    `cmd:"" help:"Run a command unless it was done before: once ever, or once per period."`
	Elect   electCmd   `cmd:"" help:"Run a command while leading an election, or print the leader."`
	Acquire acquireCmd `cmd:"" help:"Acquire a lease and print a ticket for it."`
	Renew   renewCmd   `cmd:"" help:"Renew the lease of a ticket."`
	Release releaseCmd `cmd:"" help:"Release the lease of a ticket."`
	Hold    holdCmd    `cmd:"" help:"Hold a lease until standard input ends."`
	Wait    waitCmd    `cmd:"" help:"Wait until a resource is free."`
	Ls      lsCmd      `cmd:"" help:"List the resources in use."`
	Show    showCmd    `cmd:"" help:"Show the holders of a resource and its waiters."`
	Log     logCmd     `cmd:"" help:"Print what happened to leases, if it was recorded."`
	Top     topCmd     `cmd:"" help:"Follow the resources in use on the terminal."`
	Break   breakCmd   `cmd:"" help:"Break a lease or end a wait."`
	Serve   serveCmd   `cmd:"" help:"Serve a dashboard for browsers."`
	Doctor  doctorCmd  `cmd:"" help:"Check whether a store is fit for locks."`
	Migrate migrateCmd `cmd:"" help:"Create the tables that a database needs, or print the SQL."`
	Bench   benchCmd   `cmd:"" help:"Measure what locks cost on a store."`
	Torture tortureCmd `cmd:"" passthrough:"" help:"Break other locks on demand, and try to break Holdfast."`
	Demo    demoCmd    `cmd:"" help:"Show two scenes, stock and report, without and with Holdfast, also when nodes die."`
	Version versionCmd `cmd:"" help:"Show the version."`

	Completion completionCmd `cmd:"" help:"Print a script that completes verbs, flags and names in the shell."`
	Names      namesCmd      `cmd:"" hidden:"" help:"List names for the completion."`
	Man        manCmd        `cmd:"" hidden:"" help:"Write manual pages."`
}

// env is what verbs get besides their flags.
type env struct {
	url, prefix    string
	history        int      // how many events to keep; 0: record nothing
	urlGiven       bool     // by a flag, not by default or environment
	storeFile      []byte   // what was in the file of --store-file; nil: there is none
	args           []string // of the program, with its name
	handedOver     bool     // by a program with fewer stores
	opener         store.Opener
	job            *guard.ShellJob
	ahead          *guardAhead // until the verb has taken it
	stdout, stderr io.Writer
}

const description = `Distributed locks and leases on Redis, PostgreSQL, MySQL, SQLite, etcd and ZooKeeper, from the shell.

	holdfast demo
	holdfast run nightly-report -- ./report.sh
	holdfast once --cron '0 8 * * *' push-report -- ./push.sh
	holdfast elect dispatcher "$(hostname)" -- ./dispatcher
	holdfast doctor
	holdfast ls`

// run parses the arguments and runs the verb.
func (e *env) run(args []string) int {
	if len(args) > 0 && args[0] == "help" {
		args = append(args[1:len(args):len(args)], "--help")
	}
	e.ahead = e.guardFor(args)
	defer func() { e.ahead.drop() }()
	for _, name := range []string{"HOLDFAST_STORE", "HOLDFAST_STORE_FILE", "HOLDFAST_HISTORY", "HOLDFAST_INSECURE"} {
		if os.Getenv(name) == "" {
			os.Unsetenv(name) // kong would take an empty one for the value
		}
	}
	p, err := parse(args, e.stdout, e.stderr)
	if err != nil {
		usage(err, e.stderr, asksJSON(args), slices.Contains(args, "--"))
		return exitUsage
	}
	c := p.cli
	e.url, e.prefix = string(c.Store), string(c.Prefix)
	if slices.Contains([]string{"run", "once", "elect", "acquire", "renew", "release", "hold", "break", "top"}, p.ctx.Selected().Name) {
		e.history = c.History
	}
	e.opener.TLS = store.TLS{CACert: c.CACert, Cert: c.Cert, Key: c.Key, ServerName: c.TLSServerName, Insecure: c.Insecure}
	fileGiven := false
	for _, on := range p.ctx.Path {
		e.urlGiven = e.urlGiven || on.Flag != nil && on.Flag.Name == "store"
		fileGiven = fileGiven || on.Flag != nil && on.Flag.Name == "store-file"
	}
	if err := e.readURL(c.StoreFile, fileGiven); err != nil {
		return exitCode(err, asksJSON(args))
	}
	if err := e.handOver(e.storeOf(p.ctx)); err != nil && p.ctx.Selected().Name != "names" { // a completion reports no errors
		return exitCode(err, asksJSON(args))
	}
	return exitCode(p.ctx.Run(e, p.parser), asksJSON(args))
}

// help is kong's help, but for the usage lines of run, once and elect: kong does not
// know that the command stands behind --.
func help(options kong.HelpOptions, ctx *kong.Context) error {
	var text strings.Builder
	stdout := ctx.Stdout
	ctx.Stdout = &text
	err := kong.DefaultHelpPrinter(options, ctx)
	ctx.Stdout = stdout
	if err != nil {
		return err
	}
	_, err = usageText().WriteString(stdout, text.String())
	return err
}

// usageText replaces usage lines of kong.
func usageText() *strings.Replacer {
	return strings.NewReplacer(
		"run <resource> [<more> [<cmd> ...]] [flags]", "run [flags] RESOURCE… -- CMD ARGS…\n       holdfast run [flags] -c LINE RESOURCE…",
		"once <id> <cmd> ... [flags]", "once [flags] ID -- CMD ARGS…\n       holdfast once (--every D | --cron EXPR) [flags] NAME -- CMD ARGS…",
		"break [<resource> [<holder-id>]] [flags]", "break [flags] RESOURCE HOLDER_ID\n       holdfast break [flags] --all PATTERN",
		"elect <name> [<value> [<cmd> ...]] [flags]", "elect [flags] NAME VALUE -- CMD ARGS…\n       holdfast elect --observe [flags] NAME",
	)
}

// usage says what is wrong with the command line and what to do about it.
func usage(err error, stderr io.Writer, asJSON, separated bool) {
	verb := ""
	if bad, ok := errors.AsType[*kong.ParseError](err); ok && bad.Context != nil {
		if cmd := bad.Context.Selected(); cmd != nil {
			verb = " " + cmd.Name
		}
	}
	printError(stderr, asJSON, exitUsage, strings.TrimPrefix(bare(err), verb[min(1, len(verb)):]+": "))
	if asJSON {
		return
	}
	if !separated && strings.Contains(err.Error(), "unknown flag") {
		switch verb {
		case " run":
			fmt.Fprintln(stderr, "holdfast: put -- before the command: holdfast run [flags] RESOURCE -- CMD ARGS…")
		case " once":
			fmt.Fprintln(stderr, "holdfast: put -- before the command: holdfast once [flags] ID -- CMD ARGS…")
		case " elect":
			fmt.Fprintln(stderr, "holdfast: put -- before the command: holdfast elect [flags] NAME VALUE -- CMD ARGS…")
		}
	}
	fmt.Fprintf(stderr, "holdfast: see \"holdfast%s --help\" for the usage and examples.\n", verb)
}
