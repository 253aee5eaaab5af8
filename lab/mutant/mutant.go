// Package mutant tests the lab: it plants bugs in Holdfast, one at a time, and
// lets the lab find them. A mutant that survives is a hole in the lab.
//
// A mutant is a small patch of one source file. It is laid over the tree by the
// overlay of the go command, so nothing is written into the tree, and nothing but
// the packages that it touches is compiled again.
package mutant

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/lab/virtual"
)

// Mutant is a planted bug.
type Mutant struct {
	// Name says what is wrong.
	Name string
	// File is the source file, below the root of the project, with slashes.
	File string
	// Patches are made one after the other.
	Patches []Patch
	// World is where it shows.
	World virtual.World
	// Checks are those that may find it; any of them will do.
	Checks []string
	// Holds says why the lab cannot find it, if it cannot; such a mutant is not
	// played but listed.
	Holds string
}

// Live is the world of real processes, which are really stopped, and a real Redis.
const Live virtual.World = "live"

// Patch replaces a text that stands in the file exactly once.
type Patch struct{ Old, New string }

// Patched returns the file with the bug. Errors: the file cannot be read, or an old
// text is not there exactly once: then the mutant has rotted.
func (m Mutant) Patched(root string) ([]byte, error) {
	raw, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.File)))
	if err != nil {
		return nil, err
	}
	text := string(raw)
	for _, p := range m.Patches {
		if n := strings.Count(text, p.Old); n != 1 {
			return nil, fmt.Errorf("mutant rotted: %s: %s has the old text %d times: %q", m.Name, m.File, n, p.Old)
		}
		text = strings.Replace(text, p.Old, p.New, 1)
	}
	return []byte(text), nil
}

// Overlay writes the patched file and the overlay that names it into dir, and
// returns the overlay's name for the go command's flag -overlay.
func (m Mutant) Overlay(root, dir string) (string, error) {
	text, err := m.Patched(root)
	if err != nil {
		return "", err
	}
	planted := filepath.Join(dir, "planted"+filepath.Ext(m.File))
	if err := os.WriteFile(planted, text, 0o644); err != nil {
		return "", err
	}
	whole, err := filepath.Abs(filepath.Join(root, filepath.FromSlash(m.File)))
	if err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": {whole: planted}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, list, 0o644)
}
