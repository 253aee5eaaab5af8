package virtual

import (
	"errors"
	"flag"
	"io"
	"os"
	"reflect"
	"testing"
	"time"
)

// Bubbles runs f with a testing.T, which bubbles of testing/synctest hang on, in a
// program that is no test binary. The output of the T goes to stderr. It must not be
// called twice at once. Errors: f failed the T.
//
// It starts package testing as a test binary does, by testing.MainStart. That
// function is outside Go's promise of compatibility; a change of its shape breaks
// the build of this file and nothing else.
func Bubbles(f func(t *testing.T)) error {
	if !flag.Parsed() { // package testing must not parse the program's arguments
		if err := flag.CommandLine.Parse(nil); err != nil {
			return err
		}
	}
	stdout := os.Stdout
	os.Stdout = os.Stderr
	defer func() { os.Stdout = stdout }()
	m := testing.MainStart(noTestDeps{}, []testing.InternalTest{{Name: "lab", F: f}}, nil, nil, nil)
	if m.Run() != 0 {
		return errors.New("the run failed; its messages went to stderr")
	}
	return nil
}

// noTestDeps implements the dependencies of package testing, of which only running is used.
type noTestDeps struct{}

// entry is a value of a fuzz corpus, as package testing has it.
type entry = struct {
	Parent     string
	Path       string
	Data       []byte
	Values     []any
	Generation int
	IsSeed     bool
}

var errNoFuzzing = errors.New("no fuzzing here")

// ImportPath and the other methods are those of package testing's own.
func (noTestDeps) ImportPath() string                          { return "" }
func (noTestDeps) ModulePath() string                          { return "" }
func (noTestDeps) MatchString(string, string) (bool, error)    { return true, nil }
func (noTestDeps) SetPanicOnExit0(bool)                        {}
func (noTestDeps) StartCPUProfile(io.Writer) error             { return nil }
func (noTestDeps) StopCPUProfile()                             {}
func (noTestDeps) StartTestLog(io.Writer)                      {}
func (noTestDeps) StopTestLog() error                          { return nil }
func (noTestDeps) WriteProfileTo(string, io.Writer, int) error { return nil }
func (noTestDeps) CoordinateFuzzing(time.Duration, int64, time.Duration, int64, int, []entry, []reflect.Type, string, string) error {
	return errNoFuzzing
}
func (noTestDeps) RunFuzzWorker(func(entry) error) error              { return errNoFuzzing }
func (noTestDeps) ReadCorpus(string, []reflect.Type) ([]entry, error) { return nil, errNoFuzzing }
func (noTestDeps) CheckCorpus([]any, []reflect.Type) error            { return errNoFuzzing }
func (noTestDeps) ResetCoverage()                                     {}
func (noTestDeps) SnapshotCoverage()                                  {}
func (noTestDeps) InitRuntimeCoverage() (string, func(string, string) (string, error), func() float64) {
	return "", nil, nil
}
