package mutant

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"
)

// planted holds the bugs that the tests of one package must find, a file for each area.
//
//	== a name that describes the bug
//	file: the/source.go
//	test: ./the/package -run TestOne    (if not all tests in the folder of the file)
//	limit: 3m                          (if its tests take longer than a minute)
//	holds: why no test can find it      (only then)
//	-lines that are in the file
//	+lines in place of them
//
// The lines before the first bug may set file, test and limit for all bugs of the file. A line that
// begins with a space is in both texts, and "@@" begins another change of the same file.
// Lines that begin with # are comments.
//
//go:embed planted/*.txt
var planted embed.FS

// Tests selects the tests of one package for the search.
const Tests = "tests"

// Planted lists the mutants that the tests of a package must find.
func Planted() ([]Mutant, error) {
	names, err := fs.Glob(planted, "planted/*.txt")
	var all []Mutant
	for _, name := range names {
		text, readErr := planted.ReadFile(name)
		some, parseErr := parse(strings.TrimSuffix(path.Base(name), ".txt"), string(text))
		all, err = append(all, some...), errors.Join(err, readErr, parseErr)
	}
	return all, err
}

// parse reads the mutants of one area.
func parse(area, text string) ([]Mutant, error) {
	var all []Mutant
	usual := Mutant{Area: area, World: Tests}
	m, open := &usual, false // open: the latest line is part of a patch
	for n, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		name, isName := strings.CutPrefix(line, "== ")
		key, value, _ := strings.Cut(line, ": ")
		switch {
		case isName:
			all = append(all, usual)
			m, open = &all[len(all)-1], false
			m.Name = name
		case line == "" || line[0] == '#' || line == "@@":
			open = false
		case strings.ContainsRune("-+ ", rune(line[0])) && m != &usual:
			if !open {
				m.Patches, open = append(m.Patches, Patch{}), true
			}
			p := &m.Patches[len(m.Patches)-1]
			if line[0] != '+' {
				p.Old += line[1:] + "\n"
			}
			if line[0] != '-' {
				p.New += line[1:] + "\n"
			}
		case key == "file":
			m.File = value
		case key == "test":
			words := strings.Fields(value)
			m.Package, m.Flags = words[0], words[1:]
		case key == "limit":
			limit, err := time.ParseDuration(value)
			if err != nil {
				return nil, fmt.Errorf("%s.txt, line %d: %w", area, n+1, err)
			}
			m.Limit = limit
		case key == "holds":
			m.Holds = value
		default:
			return nil, fmt.Errorf("%s.txt, line %d: %q is not of this format", area, n+1, line)
		}
	}
	for i := range all {
		if all[i].Package == "" {
			all[i].Package = "./" + path.Dir(all[i].File)
		}
	}
	return all, nil
}
