package doctor

import "strconv"

// number parses an integer. If it is missing or malformed, number returns 0 and false.
func (f fields) number(name string) (n int64, ok bool) {
	n, err := strconv.ParseInt(f[name], 10, 64)
	return n, err == nil
}
