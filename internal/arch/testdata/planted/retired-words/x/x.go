package x

import "example.org/other"

// A vow is no promise. // want
// The test insists on it, early, and the ending of a word is free.
type keyringOf struct{} // want

func (k keyringOf) giveBack() { // want
	other.GiveBack()
	early := 1 // the short way // want
	_ = early
}

func readersEnterTogether() {}

func together() {} // want

func dropStale() {}
