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

// parse parses the arguments; --help prints and exits inside. kong takes milliseconds to build
// the model of all verbs, so the model has only the verbs that the arguments name. If that fails,
// the error comes from the model of all verbs.
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
// none if all verbs are needed.
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
