// Package mutant tests the lab: it plants bugs in Holdfast, one at a time, and
// the lab must find them. A mutant that survives is a defect of the lab.
//
// A mutant is a small patch of one source file. The go command's flag -overlay applies it,
// so the tree is not changed and only the packages that depend on the file are compiled again.
package mutant

import (
	"time"

	"github.com/holdfast-go/holdfast/lab/live"
	"github.com/holdfast-go/holdfast/lab/virtual"
)

// Mutant is a planted bug.
type Mutant struct {
	// Name describes the bug.
	Name string
	// File is the source file, relative to the root of the project, with slashes.
	File string
	// Patches are applied in order.
	Patches []Patch
	// World is the world of the programs that search for it.
	World virtual.World
	// Store is the store of package stores for World Live; empty: a Redis.
	Store string
	// Paused: the build has the points at which programs pause a process between two statements
	// of its client.
	Paused bool
	// Kind is that of the resources for World Live, of package live; empty: any.
	Kind live.Kind
	// Checks are the checks of which one must find it.
	Checks []string
	// Area and Package are of a mutant that the tests of a package must find: the part of
	// Holdfast that it is in, and the package.
	Area, Package string
	// Flags are those of go test, such as -run, if not all tests of the package are run.
	Flags []string
	// Limit is how long the search or those tests may take, if that is more than usual.
	Limit time.Duration
	// Holds is the reason why the lab cannot find it; empty: it can. A mutant with a
	// reason is searched for too, and must not be found.
	Holds string
	// Rare: with a reason, it may be found in a long search all the same.
	Rare bool
}

// Live selects package live, with real processes and a real store, for the search.
const Live virtual.World = "live"

// Patch replaces a text that is in the file exactly once.
type Patch struct{ Old, New string }

// sources returns the changed source files: with the bug, and with the points at which the lab pauses
// a process, if the search needs them.
func (m Mutant) sources(root string) (sources, error) {
	s := sources{root, map[string]string{}}
	if len(m.Patches) > 0 {
		if err := s.patch(m.Name, m.File, m.Patches); err != nil {
			return s, err
		}
	}
	if m.Paused {
		return s, s.addPoints()
	}
	return s, nil
}

// Patched returns the file with the bug. It returns an error if the file cannot be read, or
// if an old text is not in it exactly once: the source has changed since.
func (m Mutant) Patched(root string) ([]byte, error) {
	s, err := m.sources(root)
	return []byte(s.text[m.File]), err
}

// Overlay writes the changed files and an overlay file into dir, and returns the name of
// the overlay file for the go command's flag -overlay.
func (m Mutant) Overlay(root, dir string) (string, error) {
	s, err := m.sources(root)
	if err != nil {
		return "", err
	}
	return s.overlay(dir)
}
