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
// program that is no test binary. What the T is told goes to stderr. It must not be
// called twice at once. Errors: f failed the T.
//
// It starts package testing as a test binary does, by testing.MainStart. That
// function is outside Go's promise of compatibility; a change of its shape breaks
// the build of this file and nothing else.
func Bubbles(f func(t *testing.T)) error {
	if !flag.Parsed() { // the program's own arguments are no business of package testing
		if err := flag.CommandLine.Parse(nil); err != nil {
			return err
		}
	}
	stdout := os.Stdout
	os.Stdout = os.Stderr
	defer func() { os.Stdout = stdout }()
	m := testing.MainStart(bare{}, []testing.InternalTest{{Name: "lab", F: f}}, nil, nil, nil)
	if m.Run() != 0 {
		return errors.New("the run failed; its messages went to stderr")
	}
	return nil
}

// bare is what package testing asks of a test binary: here, nothing but to run.
type bare struct{}

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
func (bare) ImportPath() string                          { return "" }
func (bare) ModulePath() string                          { return "" }
func (bare) MatchString(string, string) (bool, error)    { return true, nil }
func (bare) SetPanicOnExit0(bool)                        {}
func (bare) StartCPUProfile(io.Writer) error             { return nil }
func (bare) StopCPUProfile()                             {}
func (bare) StartTestLog(io.Writer)                      {}
func (bare) StopTestLog() error                          { return nil }
func (bare) WriteProfileTo(string, io.Writer, int) error { return nil }
func (bare) CoordinateFuzzing(time.Duration, int64, time.Duration, int64, int, []entry, []reflect.Type, string, string) error {
	return errNoFuzzing
}
func (bare) RunFuzzWorker(func(entry) error) error              { return errNoFuzzing }
func (bare) ReadCorpus(string, []reflect.Type) ([]entry, error) { return nil, errNoFuzzing }
func (bare) CheckCorpus([]any, []reflect.Type) error            { return errNoFuzzing }
func (bare) ResetCoverage()                                     {}
func (bare) SnapshotCoverage()                                  {}
func (bare) InitRuntimeCoverage() (string, func(string, string) (string, error), func() float64) {
	return "", nil, nil
}
