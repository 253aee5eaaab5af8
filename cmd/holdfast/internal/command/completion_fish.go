package command

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

func fish(b *strings.Builder, app *kong.Node) {
	var names []string
	for _, verb := range shownVerbs(app) {
		names = append(names, verb.Name)
	}
	fmt.Fprintf(b, `function __holdfast_verb
  for word in (commandline -opc)[2..]
    test "$word" = --; and return
    if contains -- "$word" %s
      echo $word
      return
    end
  end
end
`, strings.Join(names, " "))
	for _, f := range app.Flags {
		fishFlag(b, f, "")
	}
	for _, verb := range shownVerbs(app) {
		fmt.Fprintf(b, "complete -c holdfast -f -n 'test -z (__holdfast_verb)' -a %s -d '%s'\n", verb.Name, strings.ReplaceAll(verb.Help, "'", ""))
		in := "contains -- " + verb.Name + " (__holdfast_verb)"
		for _, f := range verb.Flags {
			fishFlag(b, f, " -n '"+in+"'")
		}
		if values := enumOfArgument(verb); values != nil {
			fmt.Fprintf(b, "complete -c holdfast -f -n '%s' -a '%s'\n", in, strings.Join(values, " "))
		}
		if takesName(verb) {
			fmt.Fprintf(b, "complete -c holdfast -f -n '%s; and not contains -- -- (commandline -opc)' -a '(holdfast names (commandline -ct) 2>/dev/null)'\n", in)
			fmt.Fprintf(b, "complete -c holdfast -n '%s; and contains -- -- (commandline -opc)' -a '(__fish_complete_command)'\n", in)
		}
	}
}

// fishFlag writes a flag that is completed under a condition.
func fishFlag(b *strings.Builder, f *kong.Flag, condition string) {
	fmt.Fprintf(b, "complete -c holdfast%s -l %s", condition, f.Name)
	if f.Short != 0 {
		fmt.Fprintf(b, " -s %c", f.Short)
	}
	switch {
	case takesFile(f):
		fmt.Fprint(b, " -r -F")
	case enumOf(f) != "":
		fmt.Fprintf(b, " -x -a '%s'", enumOf(f))
	case !f.IsBool():
		fmt.Fprint(b, " -x")
	}
	fmt.Fprintln(b)
}
