package engine

// Match reports whether a resource name matches a pattern: '*' matches any
// sequence of bytes, '?' any one byte, and a backslash makes the next byte
// literal. Every other byte matches itself.
func Match(pattern, name string) bool {
	// Greedy matching with one point of return: the last star seen. It is
	// linear in practice and needs no recursion.
	p, n := 0, 0
	star, mark := -1, 0
	for n < len(name) {
		if p < len(pattern) {
			switch c := pattern[p]; {
			case c == '*':
				star, mark = p, n
				p++
				continue
			case c == '?':
				p++
				n++
				continue
			case c == '\\' && p+1 < len(pattern):
				if pattern[p+1] == name[n] {
					p += 2
					n++
					continue
				}
			case c == name[n]:
				p++
				n++
				continue
			}
		}
		if star < 0 {
			return false
		}
		mark++
		p, n = star+1, mark
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// Literal returns the part of a pattern before its first special byte: every
// name that matches begins with it.
func Literal(pattern string) string {
	for i := range len(pattern) {
		switch pattern[i] {
		case '*', '?', '\\':
			return pattern[:i]
		}
	}
	return pattern
}
