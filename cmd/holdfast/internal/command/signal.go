package command

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/guard"
)

// signalFlag is a signal by name (TERM, SIGTERM) or number.
type signalFlag syscall.Signal

// UnmarshalText reads the flag's value.
func (s *signalFlag) UnmarshalText(text []byte) error {
	name := strings.ToUpper(string(text))
	if n, err := strconv.Atoi(name); err == nil && n > 0 && unix.SignalName(syscall.Signal(n)) != "" {
		*s = signalFlag(n)
		return nil
	}
	if sig := unix.SignalNum("SIG" + strings.TrimPrefix(name, "SIG")); sig != 0 {
		*s = signalFlag(sig)
		return nil
	}
	return fmt.Errorf("%q is not a signal: write a name such as TERM or INT, or its number", text)
}

// signalName is the short name, TERM rather than "terminated".
func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return strings.TrimPrefix(name, "SIG")
	}
	return strconv.Itoa(int(sig))
}

// catchSignals starts to deliver the signals that end a wait or are passed on to the
// command. A signal that was ignored when the program started (nohup, a background job
// of a plain shell) stays ignored, for the command too.
func catchSignals() (sigs chan os.Signal, stop func()) {
	sigs = make(chan os.Signal, 16)
	for _, sig := range guard.Forwarded() {
		if !signal.Ignored(sig) {
			signal.Notify(sigs, sig)
		}
	}
	// Without this a closed standard error would end this program, and with it
	// the renewals. It is caught, not ignored, since the command would inherit
	// that; its channel is never read.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	return sigs, func() { signal.Stop(sigs) }
}

// untilSignal calls f with a context that the first signal ends. It returns that signal, or else what f returns.
func untilSignal(f func(ctx context.Context) error) error {
	sigs, stop := catchSignals()
	defer stop()
	ctx, end := endBySignal(sigs)
	defer end()
	err := f(ctx)
	if sig := signalOf(ctx); sig != nil {
		return sig
	}
	return err
}

// endBySignal returns a context that the first signal ends, with *signalled as its
// cause. After stop it receives no more signals from sigs.
func endBySignal(sigs <-chan os.Signal) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case sig := <-sigs:
			cancel(&signalled{sig.(syscall.Signal)})
		case <-quit:
		}
	}()
	return ctx, func() {
		close(quit)
		<-done
	}
}
