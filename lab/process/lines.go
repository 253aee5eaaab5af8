package process

import (
	"bufio"
	"encoding/json"
	"io"
)

// ReadLines calls take with the JSON value of each line, until the end or a line that is none.
func ReadLines[T any](in io.Reader, take func(T)) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var v T
		if json.Unmarshal(lines.Bytes(), &v) != nil {
			return
		}
		take(v)
	}
}
