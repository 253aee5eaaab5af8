package command

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// zsh's script works as a file _holdfast in fpath and when it is sourced.
func zsh(b *strings.Builder, app *kong.Node) {
	var names, described []string
	for _, verb := range shownVerbs(app) {
		names = append(names, verb.Name)
		described = append(described, shellWord(text(verb.Name+":"+strings.ReplaceAll(verb.Help, ":", `\:`))))
	}
	fmt.Fprintf(b, `#compdef holdfast
_holdfast() {
  local -a verbs=(%s)
  local -a flags values
  local verb= named= i
  for ((i = 2; i < CURRENT; i++)); do
    case $words[i] in
      --)
        shift $i words
        ((CURRENT -= i))
        _normal
        return ;;
      %s) [[ -n $verb ]] || verb=$words[i] ;;
    esac
  done
  case $verb:$words[CURRENT-1] in
`, strings.Join(described, "\n    "), strings.Join(names, "|"))
	for _, verb := range shownVerbs(app) {
		for _, f := range verb.Flags {
			zshValue(b, verb.Name, f)
		}
	}
	for _, f := range app.Flags {
		zshValue(b, "*", f)
	}
	fmt.Fprint(b, "  esac\n  case $verb in\n")
	for _, verb := range shownVerbs(app) {
		named := ""
		if takesName(verb) {
			named = " named=1"
		}
		fmt.Fprintf(b, "    %s) flags=(%s) values=(%s)%s ;;\n", verb.Name,
			strings.Join(append(flagsOf(verb), flagsOf(app)...), " "), strings.Join(enumOfArgument(verb), " "), named)
	}
	fmt.Fprintf(b, `    *) flags=(%s) ;;
  esac
  if [[ $PREFIX == -* ]]; then
    compadd -- $flags
  elif [[ -z $verb ]]; then
    _describe verb verbs
  elif [[ -n $named ]]; then
    compadd -- ${(f)"$(holdfast names "$PREFIX" 2>/dev/null)"}
  elif ((#values)); then
    compadd -- $values
  fi
}
if [[ $funcstack[1] == _holdfast ]]; then
  _holdfast "$@"
else
  compdef _holdfast holdfast
fi
`, strings.Join(flagsOf(app), " "))
}

// zshValue writes how the value of a flag is completed.
func zshValue(b *strings.Builder, verb string, f *kong.Flag) {
	if f.IsBool() {
		return
	}
	words := verb + ":--" + f.Name
	if f.Short != 0 {
		words += fmt.Sprintf("|%s:-%c", verb, f.Short)
	}
	switch values := enumOf(f); {
	case takesFile(f):
		fmt.Fprintf(b, "    %s) _files; return ;;\n", words)
	case values != "":
		fmt.Fprintf(b, "    %s) compadd -- %s; return ;;\n", words, values)
	default:
		fmt.Fprintf(b, "    %s) return ;;\n", words)
	}
}
