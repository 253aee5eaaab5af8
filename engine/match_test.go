package engine_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/engine"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"*", "anything at all\n{}", true},
		{"**", "a", true},
		{"stock:*", "stock:", true},
		{"stock:*", "stock:42", true},
		{"stock:*", "stock", false},
		{"*:42", "stock:42", true},
		{"*:42", "stock:421", false},
		{"*aab", "aaaab", true},   // the star takes less when the rest does not match
		{"a*b*c", "abbcbc", true}, // only the last star is matched again
		{"a*b*c", "abbcb", false},
		{"?", "", false},
		{"?", "a", true},
		{"?", "锁", false}, // three bytes
		{"???", "锁", true},
		{`\*`, "*", true},
		{`\*`, "a", false},
		{`\?`, "?", true},
		{`\a`, "a", true},
		{`\\`, `\`, true},
		{`*\*`, "a*", true},
		{`*\*`, "*a", false},
		{`a\`, `a\`, true}, // a backslash at the end
		{`\`, `\`, true},
		{"[a-c]", "b", false}, // brackets are not special
		{"[a-c]", "[a-c]", true},
		{"a.c", "abc", false},
	} {
		if got := engine.Match(c.pattern, c.name); got != c.want {
			t.Errorf("Match(%q, %q) = %v, want %v", c.pattern, c.name, got, c.want)
		}
	}
}

func TestMatchIsNotExponential(t *testing.T) {
	name := strings.Repeat("a", 512)
	if engine.Match(strings.Repeat("*a", 256)+"b", name) {
		t.Error("a name without b matched")
	}
}

func TestLiteral(t *testing.T) {
	for pattern, want := range map[string]string{
		"": "", "plain": "plain", "stock:*": "stock:", "a?b": "a", `a\*b`: "a", "*": "", "[x]{y}": "[x]{y}", "库存*": "库存",
	} {
		if got := engine.Literal(pattern); got != want {
			t.Errorf("Literal(%q) = %q, want %q", pattern, got, want)
		}
	}
}

// FuzzMatch compares with the equivalent regular expression.
func FuzzMatch(f *testing.F) {
	for _, seed := range [][2]string{{"a*b?c", "aXXbYc"}, {`\*\`, `*\`}, {"**a*", "ba"}, {"?\xff*", "\xfe\xff"}, {"*\n", "a\n"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		want := oracle(pattern).MatchString(latin(name))
		if got := engine.Match(pattern, name); got != want {
			t.Fatalf("Match(%q, %q) = %v, want %v", pattern, name, got, want)
		}
		if literal := engine.Literal(pattern); want && !strings.HasPrefix(name, literal) {
			t.Fatalf("%q matches %q, but does not begin with %q", pattern, name, literal)
		}
	})
}

func oracle(pattern string) *regexp.Regexp {
	var expr strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '*':
			expr.WriteString(".*")
		case c == '?':
			expr.WriteString(".")
		case c == '\\' && i+1 < len(pattern):
			i++
			expr.WriteString(regexp.QuoteMeta(latin(pattern[i : i+1])))
		default:
			expr.WriteString(regexp.QuoteMeta(latin(pattern[i : i+1])))
		}
	}
	return regexp.MustCompile(`(?s)\A` + expr.String() + `\z`)
}

// latin makes each byte a rune of its own, since a regular expression matches
// runes and Match matches bytes.
func latin(text string) string {
	runes := make([]rune, len(text))
	for i := range len(text) {
		runes[i] = rune(text[i])
	}
	return string(runes)
}
