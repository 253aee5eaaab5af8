package fence

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"strings"
)

//go:embed claim.lua
var claimLua string

// Script is a Lua script that runs under a claim, in the same atomic step. Make
// it once with NewScript and use it often, from any goroutine.
type Script struct{ text, sha string }

// NewScript puts the claim before a script. The script sees KEYS and ARGV as it
// was given them, and its lines keep their numbers in the messages of Redis. It
// has to declare its keys like any script; a first line with a shebang, which
// Redis knows since version 7, is kept first. If the script fails half way, what it wrote stays written, and so does
// the claim.
func NewScript(lua string) *Script {
	shebang := ""
	if strings.HasPrefix(lua, "#!") {
		i := strings.IndexByte(lua, '\n') + 1
		if i == 0 {
			i = len(lua)
		}
		shebang, lua = lua[:i], lua[i:]
	}
	text := shebang + oneLine(claimLua) + lua
	sum := sha1.Sum([]byte(text))
	return &Script{text: text, sha: hex.EncodeToString(sum[:])}
}

// oneLine drops comments and joins the rest, so that the line numbers of what
// follows do not move.
func oneLine(lua string) string {
	var b strings.Builder
	for line := range strings.Lines(lua) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "--") {
			b.WriteString(line + " ")
		}
	}
	return b.String()
}
