package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
)

// Exit codes. Those of 64 and above that are not 79 are of sysexits.h, those of
// 124 to 127 as timeout(1) and env(1) have them.
const (
	exitOK          = 0
	exitNo          = 1 // break: nothing to break; demo: a claim did not hold
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

// exitError ends the program with a code. Without text it does so silently:
// what there is to say was said.
type exitError struct {
	code int
	text string
}

func (e *exitError) Error() string { return e.text }

// fail is an error with the exit code of its cause and words that say what to do.
func fail(code int, format string, args ...any) error {
	return &exitError{code, fmt.Sprintf(format, args...)}
}

// signalled ends a wait: the signal N that came makes the exit code 128+N.
type signalled struct{ sig syscall.Signal }

func (s *signalled) Error() string { return "ended by signal " + signalName(s.sig) }

// explain gives an error of the library or of a URL its exit code and says what
// to do. at is the store in words.
func explain(err error, at string) *exitError {
	var exit *exitError
	var badURL *store.Error
	var sig *signalled
	text := strings.TrimPrefix(err.Error(), "holdfast: ")
	switch {
	case errors.As(err, &exit):
		return exit
	case errors.As(err, &badURL):
		return &exitError{exitConfig, text}
	case errors.As(err, &sig):
		return &exitError{exitSignal + int(sig.sig), text}
	case errors.Is(err, holdfast.ErrDenied):
		return denied(text, at)
	case errors.Is(err, holdfast.ErrMismatch):
		return &exitError{exitConfig, text + "; use the same primitive and capacity everywhere, or another name"}
	case errors.Is(err, holdfast.ErrInvalid):
		return &exitError{exitUsage, text}
	case errors.Is(err, holdfast.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return &exitError{exitUnavailable, fmt.Sprintf(
			"the store (%s) cannot be reached or does not answer: %s; check that it runs, and the address in --redis or HOLDFAST_REDIS",
			at, said(text, holdfast.ErrUnavailable))}
	}
	return &exitError{exitFailed, text}
}

// denied tells refusals that credentials or an ACL cause from those that the
// data in the store cause.
func denied(text, at string) *exitError {
	text = said(text, holdfast.ErrDenied)
	if store.RefusesUser(text) {
		return &exitError{exitDenied, fmt.Sprintf(
			"the store (%s) refuses: %s; give user and password in --redis or HOLDFAST_REDIS, and let the user run scripts and pub/sub on Holdfast's keys and channels", at, text)}
	}
	return &exitError{exitConfig, fmt.Sprintf(
		"the store (%s) refuses: %s; something else uses Holdfast's keys, or the store does not fit: choose another --prefix or store", at, text)}
}

// said is what the store itself said, inside the text of an error of kind.
func said(text string, kind error) string {
	if _, rest, ok := strings.Cut(text, kind.Error()+": "); ok {
		return rest
	}
	return text
}

// exitCode says the error, if it has something to say, and returns its code.
func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	exit := explain(err, "the store")
	if exit.text != "" {
		fmt.Fprintf(os.Stderr, "holdfast: %s\n", exit.text)
	}
	return exit.code
}
