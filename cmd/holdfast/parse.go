package main

import (
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// parsed is a command line.
type parsed struct {
	cli    *cli
	parser *kong.Kong
	ctx    *kong.Context
}

// parse parses the arguments; --help prints and exits inside. The model of all verbs takes
// kong milliseconds, so it has only those that the arguments name. What does not parse by
// that one gets its error from the whole.
func parse(args []string, stdout, stderr io.Writer) (p parsed, err error) {
	for _, without := range [][]string{unnamedVerbs(args), nil} {
		p.cli = new(cli)
		p.cli.Run.behind = len(args) - slices.Index(args, "--") - 1
		if !slices.Contains(args, "--") {
			p.cli.Run.behind = -1
		}
		p.parser, err = kong.New(p.cli,
			kong.Name("holdfast"), kong.Description(description), kong.Writers(stdout, stderr),
			kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true}), kong.Help(help),
			kong.IgnoreFields(without...),
		)
		if err != nil {
			return p, err
		}
		if p.ctx, err = p.parser.Parse(args); err == nil || without == nil {
			break
		}
	}
	return p, err
}

// unnamedVerbs returns a pattern of the fields of cli for verbs that the arguments do not name;
// none if the model of all is asked for.
func unnamedVerbs(args []string) []string {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	for _, all := range []string{"-h", "--help", "completion", "man"} {
		if slices.Contains(args, all) {
			return nil
		}
	}
	var unnamed []string
	verbs := 0
	for _, f := range reflect.VisibleFields(reflect.TypeFor[cli]()) {
		if _, verb := f.Tag.Lookup("cmd"); !verb {
			continue
		}
		verbs++
		if !slices.Contains(args, strings.ToLower(f.Name)) {
			unnamed = append(unnamed, f.Name)
		}
	}
	if len(unnamed) == verbs {
		return nil
	}
	return []string{"^cli[.](" + strings.Join(unnamed, "|") + ")$"}
}
