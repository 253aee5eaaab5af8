package command

import (
	"io"
	"slices"
	"strings"
	"testing"
)

// Any arguments are a command or an error with a text.
func FuzzArguments(f *testing.F) {
	for _, line := range []string{
		"run stock:42 --wait 5s --ttl 30s -- make build", "run --slots 3 -n a -- b", "once r --every day -- b", "elect r --name n -- b",
		"acquire r --ttl 1m", "renew --ticket t", "hold r --shared", "ls a* --json", "show r --watch", "log --follow --since 1h", "top --every 1s",
		"break r --force --reason x", "serve --listen :0", "doctor --json", "migrate --print", "bench --store a,b", "torture --store x -- y",
		"--prefix p wait r", "--store redis://a:b@c,d ls", "completion zsh", "--history -1 ls", "run r", "", "-", "--",
	} {
		f.Add(strings.ReplaceAll(line, " ", "\n"))
	}
	f.Fuzz(func(t *testing.T, lines string) {
		args := strings.Split(lines, "\n")
		exits := func(arg string) bool { // they print and end the process
			return strings.HasPrefix(arg, "-") && strings.Contains(arg, "h") || strings.HasPrefix(arg, "--v")
		}
		if len(args) > 40 || slices.ContainsFunc(args, exits) {
			return
		}
		p, err := parse(args, io.Discard, io.Discard)
		if err == nil && p.ctx.Command() == "" {
			t.Errorf("%q: no command and no error", args)
		}
		if err != nil && strings.TrimSpace(err.Error()) == "" {
			t.Errorf("%q: an error without a text", args)
		}
	})
}
