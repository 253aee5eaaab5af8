package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/guard"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
	"github.com/holdfast-go/holdfast/internal/describe"
)

// Exit codes. Those from 64 to 78 are those of sysexits.h, those from 124 to 127 those of
// timeout(1) and env(1).
const (
	exitOK          = 0
	exitNo          = 1 // break: nothing to break; elect --observe --once: no leader; demo: a claim did not hold
	exitUsage       = 64
	exitUnavailable = 69
	exitBusy        = 75
	exitDenied      = 77
	exitConfig      = 78
	exitLost        = 79
	exitTimeout     = 124
	exitFailed      = 125
	exitNotExec     = 126
	exitNotFound    = 127
	exitSignal      = 128 // plus the signal's number
	exitTimeoutKill = exitSignal + int(syscall.SIGKILL)
)

// exitError ends the program with a code. Without text nothing is printed: the message
// was printed before.
type exitError struct {
	code int
	text string
	sig  syscall.Signal // ends the program in place of the code, unless 0
}

func (e *exitError) Error() string { return e.text }

// fail returns an error with an exit code and a text that says what to do.
func fail(code int, format string, args ...any) error {
	return &exitError{code: code, text: fmt.Sprintf(format, args...)}
}

// signalled ends a wait: the signal N that came makes the exit code 128+N.
type signalled struct{ sig syscall.Signal }

func (s *signalled) Error() string { return "ended by signal " + signalName(s.sig) }

// explain returns an error of the library or of a URL with its exit code and a text that
// says what to do. st is the store, or nil.
func explain(err error, st *store.Store) *exitError {
	var exit *exitError
	var badURL *store.Error
	var sig *signalled
	text := bare(err)
	switch {
	case errors.As(err, &exit):
		return exit
	case errors.As(err, &badURL):
		return &exitError{code: exitConfig, text: text}
	case errors.As(err, &sig):
		return &exitError{exitSignal + int(sig.sig), text, sig.sig}
	case errors.Is(err, syscall.EPIPE): // as if SIGPIPE had ended the program: the reader has closed the pipe
		return &exitError{code: exitSignal + int(syscall.SIGPIPE), sig: syscall.SIGPIPE}
	case errors.Is(err, holdfast.ErrDenied):
		return denied(text, st)
	case errors.Is(err, holdfast.ErrMismatch):
		return &exitError{code: exitConfig, text: text + "; use the same kind and capacity everywhere, or another name"}
	case errors.Is(err, holdfast.ErrInvalid):
		return &exitError{code: exitUsage, text: text}
	case errors.Is(err, holdfast.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return unavailable(text, st)
	}
	return &exitError{code: exitFailed, text: text}
}

// bare returns the text of an error on one line, without the "holdfast: " with which the library's errors begin, as
// each message does.
func bare(err error) string {
	lines := strings.Split(err.Error(), "\n") // of errors that are joined
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, "holdfast: ")
	}
	return strings.Join(lines, "; ")
}

// unavailable is the error of a store that cannot be used now.
func unavailable(text string, st *store.Store) *exitError {
	at, advice := "", store.Advice{}
	text = storeMessage(text, holdfast.ErrUnavailable)
	if st != nil {
		at, advice = fmt.Sprintf(" (%s)", st), st.Advise(text)
	}
	return &exitError{code: exitUnavailable, text: fmt.Sprintf("the store%s cannot be reached or does not answer: %s; %s", at,
		cmp.Or(advice.Found, text), cmp.Or(advice.Remedy, "check that it runs, and the address in --store or HOLDFAST_STORE"))}
}

// denied is the error of a store that refuses: because of the user's credentials or rights, or
// because of what is in it.
func denied(text string, st *store.Store) *exitError {
	at, advice := "", store.Advice{}
	text = storeMessage(text, holdfast.ErrDenied)
	if st != nil {
		at, advice = fmt.Sprintf(" (%s)", st), st.Advise(text)
	}
	code := exitConfig
	if advice.Refused {
		code = exitDenied
	}
	return &exitError{code: code, text: fmt.Sprintf("the store%s refuses: %s; %s", at, cmp.Or(advice.Found, text), cmp.Or(advice.Remedy,
		"something else uses Holdfast's keys, or the store does not fit: choose another --prefix or store"))}
}

// storeMessage returns the store's own message in the text of an error of kind.
func storeMessage(text string, kind error) string {
	if _, rest, ok := strings.Cut(text, kind.Error()+": "); ok {
		return rest
	}
	return text
}

// jsonVersion is that of what --json prints, in every verb.
const jsonVersion = describe.JSONVersion

// jsonError is an error with --json.
type jsonError struct {
	Event   string `json:"event"` // "error"
	Code    int    `json:"code"`  // exit code
	Message string `json:"message"`
	Version int    `json:"version"`
}

// asksJSON reports whether the arguments have --json before those of a command.
func asksJSON(args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains(args, "--json")
}

// printError prints an error, with --json as an object.
func printError(w io.Writer, asJSON bool, code int, message string) {
	if asJSON {
		_ = writeJSON(w, jsonError{"error", code, message, jsonVersion}) // an error cannot be reported anywhere else
		return
	}
	fmt.Fprintf(w, "holdfast: %s\n", message)
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// exitCode prints the error, if it has a text, and returns its code.
func exitCode(err error, asJSON bool) int {
	if err == nil {
		return exitOK
	}
	exit := explain(err, nil)
	if exit.text != "" {
		printError(os.Stderr, asJSON, exit.code, exit.text)
	}
	if exit.sig != 0 {
		guard.Die(exit.sig)
	}
	return exit.code
}
