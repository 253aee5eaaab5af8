package diagnosis

import (
	"slices"
	"strconv"
	"strings"
)

// Older compares versions by their first two numbers.
func Older(version, than string) bool {
	return slices.Compare(firstNumbers(version), firstNumbers(than)) < 0
}

// firstNumbers returns the first two numbers of a version, 0 where there are none.
func firstNumbers(version string) []int {
	n := []int{0, 0}
	for i, part := range strings.FieldsFunc(version, func(r rune) bool { return r < '0' || r > '9' }) {
		if i < len(n) {
			n[i], _ = strconv.Atoi(part) // digits
		}
	}
	return n
}
