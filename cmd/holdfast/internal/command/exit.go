package command

import (
	"context"
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
// says what to do. at describes the store.
func explain(err error, at string) *exitError {
	var exit *exitError
	var badURL *store.Error
	var sig *signalled
	text := strings.TrimPrefix(err.Error(), "holdfast: ")
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
		return denied(text, at)
	case errors.Is(err, holdfast.ErrMismatch):
		return &exitError{code: exitConfig, text: text + "; use the same kind and capacity everywhere, or another name"}
	case errors.Is(err, holdfast.ErrInvalid):
		return &exitError{code: exitUsage, text: text}
	case errors.Is(err, holdfast.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return &exitError{code: exitUnavailable, text: fmt.Sprintf(
			"the store (%s) cannot be reached or does not answer: %s; %s", at, storeMessage(text, holdfast.ErrUnavailable), remedy(text))}
	}
	return &exitError{code: exitFailed, text: text}
}

// remedy returns what to do about a store that cannot be used.
func remedy(text string) string {
	for _, r := range []struct{ sign, do string }{
		{"unknown authority", "give the CA that signed the certificate of the server with --cacert"},
		{"x509: certificate is ", "give a name that is in the certificate with --tls-server-name"},
		{"x509: cannot validate certificate for", "give a name that is in the certificate with --tls-server-name"},
		{"certificate required", "give a client certificate with --cert and --key"},
		{"the server expects TLS", "write rediss:// in place of redis://"},
		{"the server does not speak TLS", "write redis:// in place of rediss://"},
		{"is a read-only replica", "give the address of its master, or a redis+sentinel:// URL"},
	} {
		if strings.Contains(text, r.sign) {
			return r.do
		}
	}
	return "check that it runs, and the address in --redis or HOLDFAST_REDIS"
}

// denied distinguishes refusals because of credentials or an ACL from those because of the
// data in the store.
func denied(text, at string) *exitError {
	text = storeMessage(text, holdfast.ErrDenied)
	if store.RefusesUser(text) {
		return &exitError{code: exitDenied, text: fmt.Sprintf(
			"the store (%s) refuses: %s; give user and password in --redis or HOLDFAST_REDIS, and let the user run scripts and pub/sub on Holdfast's keys and channels", at, text)}
	}
	switch {
	case strings.Contains(text, "DB index is out of range"):
		return &exitError{code: exitConfig, text: fmt.Sprintf("the store (%s) has no such database: %s; write a smaller number in the URL", at, text)}
	case strings.Contains(text, "unknown command 'sentinel'"):
		return &exitError{code: exitConfig, text: fmt.Sprintf("the store (%s) is a Redis and no Sentinel: write redis://host:port", at)}
	}
	return &exitError{code: exitConfig, text: fmt.Sprintf(
		"the store (%s) refuses: %s; something else uses Holdfast's keys, or the store does not fit: choose another --prefix or store", at, text)}
}

// storeMessage returns the store's own message in the text of an error of kind.
func storeMessage(text string, kind error) string {
	if _, rest, ok := strings.Cut(text, kind.Error()+": "); ok {
		return rest
	}
	return text
}

// jsonVersion is that of what --json prints, in every verb: a field may be added to it, but
// none changes its meaning.
const jsonVersion = 1

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

// exitCode prints the error, if it has a text, and returns its code.
func exitCode(err error, asJSON bool) int {
	if err == nil {
		return exitOK
	}
	exit := explain(err, "the store")
	if exit.text != "" {
		printError(os.Stderr, asJSON, exit.code, exit.text)
	}
	if exit.sig != 0 {
		guard.Die(exit.sig)
	}
	return exit.code
}
