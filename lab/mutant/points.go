package mutant

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// points are the calls of pausepoint.Reach that a build of the lab has, in the format of the
// planted bugs. $(e) stands for the call with the engine e and the name of the point.
//
//go:embed points.txt
var points string

const (
	pausepointFile    = "lab/pausepoint/pausepoint.go"
	pausepointPackage = "github.com/holdfast-go/holdfast/lab/pausepoint"
)

// A point of the list, and the package clause of a source file.
var (
	atPoint       = regexp.MustCompile(`\$\(([^\n]*?[\w)])\)`)
	packageClause = regexp.MustCompile(`(?m)^package \w+$`)
)

// addPoints adds the points to sources. The import stands in the line of the package clause, so
// that the lines after it keep their numbers but for those of the points.
func (s sources) addPoints() error {
	all, err := parse("points", points)
	if err != nil {
		return err
	}
	var names, files []string
	for _, p := range all {
		for i := range p.Patches {
			call := fmt.Sprintf("pausepoint.Reach($1, %q)", p.Name)
			if !atPoint.MatchString(p.Patches[i].New) {
				return fmt.Errorf("point %s has no $(engine)", p.Name)
			}
			p.Patches[i].New = atPoint.ReplaceAllString(p.Patches[i].New, call)
		}
		if err := s.patch(p.Name, p.File, p.Patches); err != nil {
			return err
		}
		if !slices.Contains(files, p.File) {
			files = append(files, p.File)
		}
		names = append(names, fmt.Sprintf("%q", p.Name))
	}
	for _, file := range files {
		at := packageClause.FindStringIndex(s.text[file])
		if at == nil {
			return fmt.Errorf("%s has no package clause", file)
		}
		s.text[file] = s.text[file][:at[1]] + fmt.Sprintf("; import %q", pausepointPackage) + s.text[file][at[1]:]
	}
	return s.patch("the names of the points", pausepointFile, []Patch{{"var names = []string{}\n", "var names = []string{" + strings.Join(names, ", ") + "}\n"}})
}
