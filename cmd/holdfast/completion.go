package main

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
Names are those of HOLDFAST_REDIS; a store that does not answer within half a second has none.

Examples:
	source <(holdfast completion bash)     # in ~/.bashrc
	source <(holdfast completion zsh)      # in ~/.zshrc, after compinit
	holdfast completion fish >~/.config/fish/completions/holdfast.fish`
}

// Run prints the script, made from the same model as --help.
func (c *completionCmd) Run(e *env, app *kong.Kong) error {
	var b strings.Builder
	if c.Shell == "fish" {
		fish(&b, app.Model.Node)
	} else {
		bash(&b, c.Shell, app.Model.Node)
	}
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

// bash also serves zsh, which can run bash's completions.
func bash(b *strings.Builder, shell string, app *kong.Node) {
	if shell == "zsh" {
		fmt.Fprintln(b, "autoload -U +X bashcompinit && bashcompinit")
	}
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
        elif [[ -n $BASH_VERSION ]] && declare -F _command_offset >/dev/null; then
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
		} else if len(verb.Positional) > 0 && verb.Positional[0].Enum != "" {
			words = append(words, strings.Split(verb.Positional[0].Enum, ",")...)
		}
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

func fish(b *strings.Builder, app *kong.Node) {
	for _, f := range app.Flags {
		fmt.Fprintf(b, "complete -c holdfast -l %s\n", f.Name)
	}
	for _, verb := range shownVerbs(app) {
		fmt.Fprintf(b, "complete -c holdfast -f -n __fish_use_subcommand -a %s -d '%s'\n", verb.Name, strings.ReplaceAll(verb.Help, "'", ""))
		in := "__fish_seen_subcommand_from " + verb.Name
		for _, f := range verb.Flags {
			values := ""
			if v := enumOf(f); v != "" {
				values = " -x -a '" + v + "'"
			}
			fmt.Fprintf(b, "complete -c holdfast -n '%s' -l %s%s\n", in, f.Name, values)
		}
		if takesName(verb) {
			fmt.Fprintf(b, "complete -c holdfast -f -n '%s; and not contains -- -- (commandline -opc)' -a '(holdfast names (commandline -ct) 2>/dev/null)'\n", in)
			fmt.Fprintf(b, "complete -c holdfast -n '%s; and contains -- -- (commandline -opc)' -a '(__fish_complete_command)'\n", in)
		}
	}
}
