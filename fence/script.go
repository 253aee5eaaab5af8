package fence

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"strings"
)

//go:embed claim.lua
var claimLua string

// A Script is a Lua script that runs under a claim, in the same atomic step.
// Create it once with [NewScript]; it is safe for concurrent use.
type Script struct{ text, sha string }

// NewScript puts the claim before a script. The script gets KEYS and ARGV as
// passed to [Redis.Do], and its line numbers in Redis's error messages are
// unchanged. It must declare its keys like any script. A shebang, which Redis 7
// and later accept, stays the first line. If the script fails after some writes,
// these and the claim remain.
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

// oneLine removes comments and joins the remaining lines, so that the line
// numbers of the text after it do not change.
func oneLine(lua string) string {
	var b strings.Builder
	for line := range strings.Lines(lua) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "--") {
			b.WriteString(line + " ")
		}
	}
	return b.String()
}
