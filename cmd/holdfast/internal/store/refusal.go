package store

import "strings"

// refusals are what servers say to a user whose credentials or rights are not
// enough; the last are what Redis says when a script runs what the user may not,
// up to version 7 and from version 8 on.
var refusals = []string{
	"NOAUTH", "WRONGPASS", "NOPERM", "AUTH", "DENIED Redis is running in protected mode", "invalid username-password", "invalid password",
	"The user executing the script can't", "ACL failure in script",
}

// RefusesUser tells whether what the store said is about who asks, not about
// what was asked.
func RefusesUser(said string) bool {
	for _, word := range refusals {
		if strings.Contains(said, word) {
			return true
		}
	}
	return false
}
