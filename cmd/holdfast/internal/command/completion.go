package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// completionCmd is `holdfast completion`.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help is the long text of --help.
func (*completionCmd) Help() string {
	return `Prints a script that completes verbs, flags and their values, names of resources in use, and the command after --.
Names are those of HOLDFAST_STORE; a store that does not answer within half a second has none.

Examples:
	source <(holdfast completion bash)     # in ~/.bashrc
	source <(holdfast completion zsh)      # in ~/.zshrc, after compinit
	holdfast completion fish >~/.config/fish/completions/holdfast.fish`
}

// Run prints the script, made from the same model as --help.
func (c *completionCmd) Run(e *env, app *kong.Kong) error {
	var b strings.Builder
	map[string]func(*strings.Builder, *kong.Node){"bash": bash, "zsh": zsh, "fish": fish}[c.Shell](&b, app.Model.Node)
	_, err := fmt.Fprint(e.stdout, b.String())
	return err
}

// takesName reports whether the first argument of a verb is the name of a resource.
func takesName(verb *kong.Node) bool {
	return len(verb.Positional) > 0 && slices.Contains([]string{"resource", "id", "name", "pattern"}, verb.Positional[0].Name)
}

func flagsOf(n *kong.Node) []string {
	var flags []string
	for _, f := range n.Flags {
		flags = append(flags, "--"+f.Name)
	}
	return flags
}

// enumOf returns the values of a flag that has a few.
func enumOf(f *kong.Flag) string {
	return strings.TrimSpace(strings.ReplaceAll(f.Enum, ",", " "))
}

func shownVerbs(app *kong.Node) []*kong.Node {
	return slices.DeleteFunc(slices.Clone(app.Children), func(n *kong.Node) bool { return n.Hidden })
}

// enumOfArgument returns the values of a verb's first argument, if it has a few.
func enumOfArgument(verb *kong.Node) []string {
	if len(verb.Positional) == 0 || verb.Positional[0].Enum == "" {
		return nil
	}
	return strings.Split(verb.Positional[0].Enum, ",")
}

// takesFile reports whether the value of a flag is the name of a file.
func takesFile(f *kong.Flag) bool { return f.PlaceHolder == "FILE" }

func bash(b *strings.Builder, app *kong.Node) {
	var names []string
	for _, verb := range shownVerbs(app) {
		names = append(names, verb.Name)
	}
	// bash splits a name at its colons, so the typed text is read from the line.
	fmt.Fprintf(b, `_holdfast() {
  local i verb= words= named= IFS=$' \t\n'
  local line=${COMP_LINE:0:COMP_POINT}
  local cur=${line##*[[:space:]]} prev=${COMP_WORDS[COMP_CWORD-1]}
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --)
        if ((i == COMP_CWORD - 1)); then
          COMPREPLY=($(compgen -c -- "$cur"))
        elif declare -F _command_offset >/dev/null; then
          _command_offset $((i + 1))
        fi
        return ;;
      %s) [[ -n $verb ]] || verb=${COMP_WORDS[i]} ;;
    esac
  done
  case $verb:$prev in
`, strings.Join(names, "|"))
	for _, verb := range shownVerbs(app) {
		for _, f := range verb.Flags {
			if values := enumOf(f); values != "" {
				fmt.Fprintf(b, "    %s:--%s) COMPREPLY=($(compgen -W '%s' -- \"$cur\")); return ;;\n", verb.Name, f.Name, values)
			}
		}
	}
	fmt.Fprint(b, "  esac\n  case $verb in\n")
	for _, verb := range shownVerbs(app) {
		words, named := append(flagsOf(verb), flagsOf(app)...), ""
		if takesName(verb) {
			named = " named=1"
		}
		words = append(words, enumOfArgument(verb)...)
		fmt.Fprintf(b, "    %s) words='%s'%s ;;\n", verb.Name, strings.Join(words, " "), named)
	}
	fmt.Fprintf(b, "    *) words='%s %s' ;;\n", strings.Join(names, " "), strings.Join(flagsOf(app), " "))
	fmt.Fprint(b, `  esac
  if [[ -n $named && $cur != -* ]]; then
    words=$(holdfast names "$cur" 2>/dev/null)
  fi
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
  if [[ $COMP_WORDBREAKS == *:* ]]; then
    COMPREPLY=("${COMPREPLY[@]#"${cur%"${cur##*:}"}"}")
  fi
}
complete -o default -F _holdfast holdfast
`)
}
