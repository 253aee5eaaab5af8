package command

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/alecthomas/kong"

	"github.com/holdfast-go/holdfast/internal/describe"
)

// text is an argument byte for byte. kong passes a plain string through JSON, which
// replaces bytes that are not UTF-8: a command would get other file names than those given,
// and a bad resource name would be accepted.
type text string

// Decode implements kong.MapperValue.
func (t *text) Decode(ctx *kong.DecodeContext) error {
	token, err := ctx.Scan.PopValue("text")
	if err != nil {
		return err
	}
	s, ok := token.Value.(string)
	if !ok {
		return fmt.Errorf("expected text but got %v", token)
	}
	*t = text(s)
	return nil
}

// texts are several arguments. It is not a slice, which kong accepts only as the last argument.
type texts struct{ list []text }

// Decode implements kong.MapperValue.
func (t *texts) Decode(ctx *kong.DecodeContext) error {
	for ctx.Scan.Peek().IsValue() {
		var next text
		if err := next.Decode(ctx); err != nil {
			return err
		}
		t.list = append(t.list, next)
	}
	return nil
}

// shellWord quotes a text for a shell, if that is needed. If it has characters that do not print, bash, zsh and ksh read
// what is returned.
func shellWord(s text) string {
	plain := func(r rune) bool {
		return strings.ContainsRune("_@%+=:,./-", r) || r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r))
	}
	if s != "" && strings.TrimFunc(string(s), plain) == "" {
		return string(s)
	}
	if describe.Text(string(s)) != string(s) {
		var quoted strings.Builder
		for _, b := range []byte(s) { // in bytes, since some locales have no characters above them
			if b < ' ' || b > '~' || b == '\'' || b == '\\' {
				fmt.Fprintf(&quoted, `\%03o`, b)
			} else {
				quoted.WriteByte(b)
			}
		}
		return "$'" + quoted.String() + "'"
	}
	return "'" + strings.ReplaceAll(string(s), "'", `'\''`) + "'"
}

// stringsOf are the arguments of a command.
func stringsOf(args []text) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = string(a)
	}
	return out
}
