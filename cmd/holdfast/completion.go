package main

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// completionCmd is `holdfast completion`.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help is the long text of --help.
func (*completionCmd) Help() string {
	return `Prints a script that completes verbs and flags.

Examples:
	source <(holdfast completion bash)     # in ~/.bashrc
	source <(holdfast completion zsh)      # in ~/.zshrc, after compinit
	holdfast completion fish >~/.config/fish/completions/holdfast.fish`
}

// Run prints the script, made from the same model as --help.
func (c *completionCmd) Run(e *env, app *kong.Kong) error {
	var verbs []string
	flags := map[string][]string{"": flagsOf(app.Model.Node)}
	for _, verb := range app.Model.Children {
		verbs = append(verbs, verb.Name)
		flags[verb.Name] = append(flagsOf(verb), flags[""]...)
	}
	var b strings.Builder
	if c.Shell == "fish" {
		fish(&b, app.Model.Node)
	} else {
		bash(&b, c.Shell, verbs, flags)
	}
	_, err := fmt.Fprint(e.stdout, b.String())
	return err
}

func flagsOf(n *kong.Node) []string {
	var flags []string
	for _, f := range n.Flags {
		flags = append(flags, "--"+f.Name)
	}
	return flags
}

// bash also serves zsh, which can run bash's completions.
func bash(b *strings.Builder, shell string, verbs []string, flags map[string][]string) {
	if shell == "zsh" {
		fmt.Fprintln(b, "autoload -U +X bashcompinit && bashcompinit")
	}
	fmt.Fprint(b, `_holdfast() {
  local i verb= words
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --) return ;;
`)
	fmt.Fprintf(b, "      %s) verb=${COMP_WORDS[i]}; break ;;\n", strings.Join(verbs, "|"))
	fmt.Fprint(b, "    esac\n  done\n  case $verb in\n")
	for _, verb := range verbs {
		fmt.Fprintf(b, "    %s) words='%s' ;;\n", verb, strings.Join(flags[verb], " "))
	}
	fmt.Fprintf(b, "    *) words='%s %s' ;;\n", strings.Join(verbs, " "), strings.Join(flags[""], " "))
	fmt.Fprint(b, `  esac
  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _holdfast holdfast
`)
}

func fish(b *strings.Builder, app *kong.Node) {
	for _, f := range app.Flags {
		fmt.Fprintf(b, "complete -c holdfast -l %s\n", f.Name)
	}
	for _, verb := range app.Children {
		fmt.Fprintf(b, "complete -c holdfast -f -n __fish_use_subcommand -a %s -d '%s'\n", verb.Name, strings.ReplaceAll(verb.Help, "'", ""))
		for _, f := range verb.Flags {
			fmt.Fprintf(b, "complete -c holdfast -n '__fish_seen_subcommand_from %s' -l %s\n", verb.Name, f.Name)
		}
	}
}
