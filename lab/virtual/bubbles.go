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

// Bubbles runs f with a testing.T, which testing/synctest requires, in a program that is
// not a test binary. The output of the T goes to stderr. Bubbles must not be called
// concurrently. It returns an error if f failed the T.
//
// Bubbles starts package testing by testing.MainStart, as a test binary does. That
// function is not covered by Go's promise of compatibility; a change of its signature
// breaks the build of this file only.
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

// noTestDeps implements what testing.MainStart requires. Only MatchString does something.
type noTestDeps struct{}

// entry has the fields of corpusEntry in package testing.
type entry = struct {
	Parent     string
	Path       string
	Data       []byte
	Values     []any
	Generation int
	IsSeed     bool
}

var errNoFuzzing = errors.New("no fuzzing here")

// ImportPath and the other methods implement the interface testDeps of package testing.
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
