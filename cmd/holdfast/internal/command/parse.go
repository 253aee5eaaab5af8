package command

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
	for _, named := range []func(verb string) bool{namedIn(args), func(string) bool { return true }} {
		p.cli = new(cli)
		all := new(verbs)
		all.Run.behind = len(args) - slices.Index(args, "--") - 1
		if !slices.Contains(args, "--") {
			all.Run.behind = -1
		}
		options := commands(all, named)
		if len(options) == 0 {
			continue
		}
		options = append(options,
			kong.Name("holdfast"), kong.Description(description), kong.Writers(stdout, stderr),
			kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true}), kong.Help(help),
		)
		if p.parser, err = kong.New(p.cli, options...); err != nil {
			return p, err
		}
		if p.ctx, err = p.parser.Parse(args); err == nil {
			break
		}
	}
	return p, err
}

// commands returns the verbs that named selects.
func commands(all *verbs, named func(verb string) bool) (options []kong.Option) {
	fields := reflect.ValueOf(all).Elem()
	for i := range fields.NumField() {
		field := fields.Type().Field(i)
		if verb := strings.ToLower(field.Name); named(verb) {
			options = append(options, kong.DynamicCommand(verb, field.Tag.Get("help"), "", fields.Field(i).Addr().Interface(), string(field.Tag)))
		}
	}
	return options
}

// namedIn selects the verbs among the arguments; all if these need all.
func namedIn(args []string) func(verb string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	all := slices.ContainsFunc(args, func(arg string) bool {
		return slices.Contains([]string{"-h", "--help", "completion", "man"}, arg)
	})
	return func(verb string) bool { return all || slices.Contains(args, verb) }
}
