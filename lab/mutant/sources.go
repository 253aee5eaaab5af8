package mutant

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// sources are changed copies of source files, for the go command's flag -overlay.
type sources struct {
	root string
	text map[string]string // by file, relative to the root, with slashes
}

// read returns a file as it was changed so far.
func (s sources) read(file string) (string, error) {
	if text, changed := s.text[file]; changed {
		return text, nil
	}
	raw, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(file)))
	return string(raw), err
}

// patch changes a file. It returns an error if the file cannot be read, or if an old text
// is not in it exactly once: the source has changed since.
func (s sources) patch(name, file string, patches []Patch) error {
	text, err := s.read(file)
	if err != nil {
		return err
	}
	for _, p := range patches {
		if n := strings.Count(text, p.Old); n != 1 {
			return fmt.Errorf("mutant rotted: %s: %s has the old text %d times: %q", name, file, n, p.Old)
		}
		text = strings.Replace(text, p.Old, p.New, 1)
	}
	s.text[file] = text
	return nil
}

// overlay writes the changed files and an overlay file into dir, and returns the name of the
// overlay file.
func (s sources) overlay(dir string) (string, error) {
	replace := map[string]string{}
	for file, text := range s.text {
		changed := filepath.Join(dir, fmt.Sprintf("planted%d%s", len(replace), filepath.Ext(file)))
		if err := os.WriteFile(changed, []byte(text), 0o644); err != nil {
			return "", err
		}
		whole, err := filepath.Abs(filepath.Join(s.root, filepath.FromSlash(file)))
		if err != nil {
			return "", err
		}
		replace[whole] = changed
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, list, 0o644)
}
